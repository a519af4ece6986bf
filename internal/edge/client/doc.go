// Package client asks a daemon over its unix socket.
package client
