// Package frames sends test frames out of network interfaces and counts those received, in this network namespace or in one that
// ends with the process. `sluice qualify` uses it to find out what a NIC does.
package frames
