// Package cli is the command line of sluice: it parses arguments, asks the daemon over
// its socket, and prints tables for people and JSON for programs. What the daemon and
// the demo do is passed in as functions, so that this package needs neither libvirt
// nor a simulator.
package cli
