package dashboard

import "time"

// MaxConnections is the bound of connections of a Server.
const MaxConnections = maxConnections

// IdleTimeout is how long a connection may stay without a request.
func IdleTimeout(s *Server) time.Duration { return s.http.IdleTimeout }
