// Package daemon puts the parts together that make sluiced: config, observe, loop, actuate
// and server. It decides nothing.
package daemon
