// Package daemon puts the parts together that make sluiced: config, observe, loop, actuate
// and web. It decides nothing.
package daemon
