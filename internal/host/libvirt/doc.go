// Package libvirt watches and changes domains through libvirt: an inventory kept
// true by events, statistics, hot-plug of VFs, and the guest agent.
//
// libvirt's calls know no deadline. Here every call obeys its context: one that is
// stuck is left behind, and further calls on the same domain fail at once until it
// comes back or its connection is closed, so a stuck domain delays no other.
//
// Calls go to libvirt's daemon over its Unix socket; no libvirt library is needed.
package libvirt
