// Package kernel is the interface to the kernel of this machine, opened once: interfaces (netdev), bridges (bridge), PFs and VFs
// (vf), vDPA (vdpa), counters (counters), programs on taps (tap, mirror) and the trees that share links (htb), all over the same
// connections (sysif). Only these packages use raw kernel interfaces: rtnetlink, generic netlink, sysfs, procfs, packet sockets
// and eBPF. They read plain data and make single changes, which they verify by reading back where the kernel allows it.
//
// Every method takes a context and returns by its deadline, even if the kernel does not: a stuck call (a driver that holds the
// rtnl lock, an unbind that waits for a user) is abandoned and completes or fails unobserved. Every change is idempotent. Errors
// name the operation and its subject, and wrap the errno (errors.Is(err, unix.ENOMEM)) as well as model.ErrGone and
// model.ErrPermanent where they apply.
//
// Interface names are those of the network namespace of the process.
package kernel
