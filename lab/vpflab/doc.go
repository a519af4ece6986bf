// Package vpflab is a host for virtual PFs on this machine's own kernel, for Go tests to drive.
//
// The host is a set of namespaces with the root file system of package lab's host: libvirt 11 and a
// QEMU that knows virtual PFs. It has the bridge br0 (10.9.0.1/24), and a machine outside, which is
// the network namespace ext on a wire to br0 (10.9.0.100, device wire0). Its guests are Debian VMs
// without hardware acceleration, with containerd, CNI plugins and tools for traffic; one boots in
// 10 to 40 s. Taps, bridge and TCX are this machine's kernel's.
//
// Unlike package lab there is no virtualization inside virtualization, and no VF of a physical NIC.
// Needs root. Times are those of an emulator.
package vpflab
