package dashboard

import "time"

// MaxConnections is the connection limit of a Server.
const MaxConnections = maxConnections

// IdleTimeout is how long a connection may stay open without a request.
func IdleTimeout(s *Server) time.Duration { return s.http.IdleTimeout }

// SetTimeouts changes how long a connection may send nothing before its first request, and between requests.
func SetTimeouts(s *Server, read, idle time.Duration) {
	s.http.ReadTimeout, s.http.IdleTimeout = read, idle
}
