// Package bandwidth decides how much each NIC may send so that every one can have what its
// SLA promises, whatever the others do. It is pure: no clock, no goroutine, no randomness.
//
// An Allocator shares one PF's link among the NICs behind it. Core is the controller around
// the allocators: it makes rates of counters, keeps one Allocator per link, and turns what they
// allow into Limits for the paths that each NIC has.
package bandwidth
