// Package frames sends test frames out of network interfaces and counts those that arrive, in this network
// namespace or in one of its own that ends with the process. It is how `sluice qualify` learns what a NIC does.
package frames
