// Package answer turns a View, the daemon's latest picture of host and decisions, into the types of the API. It holds no state:
// every answer is a pure function of a View, so that API, metrics and command line cannot disagree.
package answer
