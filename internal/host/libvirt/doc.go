// Package libvirt observes and changes domains through libvirt: an inventory kept up to date by events, statistics, hot-plug of VFs, and
// the guest agent.
//
// libvirt's calls have no deadline. Here every call obeys its context: a stuck call is abandoned, and further calls on the same domain fail
// immediately until it returns or its connection is closed, so a stuck domain delays no other.
//
// Calls go to libvirt's daemon over its Unix socket; no libvirt library is needed.
package libvirt
