// Package vpflab provides Go tests with a host for virtual PFs on this machine's own kernel.
//
// The host is a set of namespaces with the root file system of package lab's host: libvirt 11 and a QEMU that supports virtual PFs. It
// has the bridge br0 (10.9.0.1/24) and an outside machine: the network namespace ext, connected to br0 by a veth pair (10.9.0.100,
// device wire0). Its guests are Debian VMs without hardware acceleration, with containerd, CNI plugins and traffic tools; one boots in
// 10 to 40 s. Taps, bridge and TCX are those of this machine's kernel.
//
// Unlike package lab it has no nested virtualization and no VFs of a physical NIC. It needs root. Times are those of an emulator.
package vpflab
