// Package observe combines what the kernel, libvirt and the guests report into a model.Snapshot: which VM owns each VF, how much traffic
// each of a VM's two paths carries, and how far each figure can be trusted.
//
// A Snapshot is cheap: one dump of the host's links, the VFs' counters, which of the VFs held by guests are in use, and the domains, which
// package libvirt keeps up to date from events. CPU times need one call per domain and are read every five seconds. So is the costlier
// inventory (VF settings, forwarding entries, VFs that should be unused), but two seconds after kernel events, and at once when a domain
// gains or loses a VF or Invalidate is called; see Options. Guests are asked in the background; none can delay a Snapshot.
//
// If libvirt or the kernel cannot be queried, Snapshot returns an error instead of an incomplete Snapshot: a VM that is missing because a
// query failed must not look like a VM that is gone. The control loop then has nothing to act on.
package observe
