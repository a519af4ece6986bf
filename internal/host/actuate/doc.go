// Package actuate executes Steps: each is one or a few calls to the kernel or libvirt. A Step names a desired state, so it is idempotent,
// and succeeds if there is nothing left to do.
//
// Before it changes a VF's settings, the Actuator checks again who holds the VF: since planning, another domain may have taken it. A
// tolerable failure, such as a filter for which the driver has no room, is logged and is not an error.
package actuate
