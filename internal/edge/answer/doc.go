// Package answer converts a View, the daemon's latest state of the host and its decisions, to the types of the API. It is
// stateless: every answer is a pure function of a View, so that API, metrics and command line agree.
package answer
