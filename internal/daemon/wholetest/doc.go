// Package wholetest runs the whole daemon as a process on the real kernel with a NIC in mode switchdev. Its representors are veth pairs
// through which frames really go; what only its driver and its PCI devices can tell is told by the test.
//
// What stands for what:
//   - the NIC's driver: rtnl.Driver in the daemon's process adds the attributes of ports and VFs to the kernel's answers, and takes changes
//     of VFs (main_test.go); its state is in the test's process, so that it outlives the daemon (nic_test.go)
//   - sysfs: a directory, mounted at /sys in a mount namespace of the daemon's own (nic_test.go)
//   - libvirtd: a server of its protocol with one domain (libvirtd_test.go)
//   - the guest: it has the tap and the far end of the VF's veth pair, and accepts frames on its active path only, as net_failover does
//     (guest_test.go)
package wholetest
