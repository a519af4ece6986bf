// Package libvirt watches and changes domains through libvirt: an inventory kept
// true by events, statistics, hot-plug of VFs, and the guest agent.
//
// libvirt's calls know no deadline. Here every call obeys its context: one that is
// stuck is left behind on its own thread, and further calls on the same domain fail
// at once until it comes back, so a stuck domain delays no other.
//
// The binding opens libvirt.so.0 at run time: build with -tags libvirt_dlopen.
package libvirt
