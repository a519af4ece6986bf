package server

import (
	"context"
	"net/http"
)

// AsUser is a request as it comes from a user over the unix socket.
func AsUser(r *http.Request, uid uint32, groups ...uint32) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), peerKey{}, peer{local: true, uid: uid, groups: groups}))
}

// OverTCP is a request as it comes over TCP.
func OverTCP(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), peerKey{}, peer{tcp: true}))
}

// Bounds that tests go up to.
const (
	PerPeer        = perPeer
	PerAll         = perAll
	StreamsPerPeer = streamsPerPeer
)
