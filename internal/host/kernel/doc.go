// Package kernel is the kernel of this machine, opened once: interfaces (netdev), bridges (bridge), PFs and VFs (vf), vDPA (vdpa), counters
// (counters), what stands on taps (tap, mirror) and the trees that share links (htb), all over the same connections (sysif). These packages
// are the only users of raw kernel interfaces: rtnetlink, generic netlink, sysfs, procfs, packet sockets and eBPF. They read into plain
// data, and make single changes, each read back where the kernel allows it.
//
// Every method takes a context and returns by its deadline, even when the kernel
// does not: a call that is stuck (a driver that holds the rtnl lock, an unbind
// that waits for a user) is left behind and finishes or fails unseen. Every
// change is idempotent. Errors name the operation and its subject, and wrap the
// errno (errors.Is(err, unix.ENOMEM)) as well as model.ErrGone and
// model.ErrPermanent where they apply.
//
// Names of interfaces are those of the network namespace the process is in.
package kernel
