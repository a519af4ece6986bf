// Package web is how people and programs talk to the daemon: JSON over a unix socket
// (and, only if asked, read-only over TCP), Prometheus metrics and a health check. It
// holds no state: every answer is a pure function of the View the daemon publishes,
// so that API, metrics and command line cannot disagree. The Client for the command
// line is here too, beside the types it decodes.
package web
