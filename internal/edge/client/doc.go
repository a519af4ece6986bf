// Package client is the client of a daemon's API over its unix socket.
package client
