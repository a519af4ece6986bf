// Package kernel is the only user of raw kernel interfaces: rtnetlink, generic
// netlink, sysfs, procfs, packet sockets and eBPF. It reads PFs, VFs, links and bridge entries
// into plain data, and makes single changes to them, each read back where the
// kernel allows it.
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
