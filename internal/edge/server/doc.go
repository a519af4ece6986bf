// Package server answers over HTTP: JSON over a unix socket (and read-only over TCP if configured), metrics and a health
// check. A caller's role follows from the peer credentials of the socket; the Backend executes the commands.
package server
