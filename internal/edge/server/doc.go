// Package server answers over HTTP: JSON over a unix socket (and, only if asked, read-only over TCP), metrics and a health
// check. The socket's credentials say what a caller may do; the Backend carries it out.
package server
