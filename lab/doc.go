// Package lab boots a real host with SR-IOV hardware and guests, all emulated, and lets Go tests drive it.
//
// The host under test is a virtual machine without hardware acceleration: it needs neither /dev/kvm nor a network card, only root for
// building its image. It has two emulated igb physical functions with seven VFs each, libvirt, and guests that run under the emulated
// CPU's own virtualization:
//
//	vm1..vm4  net_failover pairs on br0 (pf0)
//	vm5       active-backup bond made inside the guest, on br0
//	vm6       the same with a team
//	vm7       a net_failover pair on br1 (pf1), another network
//
// An outside host on each PF's wire is a network namespace: ext (10.9.0.100)
// and ext1 (10.9.1.100). Guest vmN has MAC 52:54:00:00:01:0N and address
// 10.9.0.1N (vm7: 10.9.1.17).
//
// A test calls [ForTest], which resumes a snapshot in seconds. The first use ever builds image and snapshot, which takes minutes;
// `labctl build` does that ahead of time.
//
// Times are those of an emulator. The lab checks function, order and loss, and never measures speed.
package lab
