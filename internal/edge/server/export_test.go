package server

import (
	"context"
	"net"
	"net/http"
)

// AsUser marks a request as coming from a user over the unix socket.
func AsUser(r *http.Request, uid uint32, groups ...uint32) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), peerKey{}, peer{local: true, uid: uid, groups: groups}))
}

// OverTCP marks a request as coming over TCP.
func OverTCP(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), peerKey{}, peer{tcp: true}))
}

// Limits that tests exhaust.
const (
	PerPeer        = perPeer
	PerAll         = perAll
	StreamsPerPeer = streamsPerPeer
	StreamsPerAll  = streamsPerAll
)

// ShareOf returns the share of a TCP connection from that address and port.
func ShareOf(remote string) string { return shareOf(from{remote: remote}, peer{tcp: true}) }

// from is a connection with only a remote address.
type from struct {
	net.Conn
	remote string
}

func (f from) RemoteAddr() net.Addr { return f }
func (f from) Network() string      { return "tcp" }
func (f from) String() string       { return f.remote }
