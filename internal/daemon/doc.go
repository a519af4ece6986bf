// Package daemon puts the parts together: config, observe, loop, actuate and web make
// `sluice run`; the same with a simulated host makes `sluice demo`. It decides nothing.
package daemon
