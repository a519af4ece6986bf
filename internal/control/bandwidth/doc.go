// Package bandwidth decides how much each NIC may send so that each gets what its SLA promises, whatever the others do. It is
// pure: no clock, no goroutine, no randomness.
//
// An Allocator divides one PF's link among the NICs behind it. Core is the controller around the allocators: it derives rates
// from counters, keeps one Allocator per link, and turns the allowances into Limits for the paths of each NIC.
package bandwidth
