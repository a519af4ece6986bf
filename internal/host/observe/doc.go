// Package observe turns what the kernel, libvirt and the guests say into a
// model.Snapshot: which VF belongs to whom, which of a machine's two paths carries
// what, and how far each figure may be believed.
//
// A Snapshot is cheap: one dump of the host's links, the VFs' counters, which of the VFs that
// guests have are in use, and the domains, which package libvirt keeps true by events. CPU
// times take a call for each domain and are read every five seconds. So is the slower
// inventory (VF settings, forwarding entries, VFs that should lie idle), but two seconds after kernel events, and at once when a domain gains
// or loses a VF or Invalidate says so; see Options. Guests are asked aside; none of them
// can delay a Snapshot.
//
// When libvirt or the kernel cannot be asked, Snapshot returns an error instead of
// a Snapshot with less in it: a machine that is missing for want of an answer must
// not look like a machine that is gone, so the loop has nothing to act upon.
package observe
