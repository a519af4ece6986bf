// Package actuate does Steps: each is one call, or a few, to the kernel or libvirt. A
// Step names the state that should be, so doing it again is harmless, and doing it
// where there is nothing left to do succeeds.
//
// Before a VF's settings are touched the Actuator looks once more who holds it: what was
// planned a moment ago may have become another's. A failure that can be tolerated, such as a
// filter the driver has no room for, is logged and not an error.
package actuate
