// Package cli is the command line of sluice: it parses arguments, queries the daemon over its socket, and prints tables for
// users and JSON for programs. The demo is passed in as a function, so that this package does not need the simulated host.
package cli
