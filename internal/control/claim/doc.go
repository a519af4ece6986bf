// Package claim decides how much of a guest's reported VF traffic to believe when the NIC keeps no counters per VF and the guest
// agent is the only source.
//
// The host has three independent sources, called witnesses here. The host kernel counts what a VM moves on virtio: this proves
// what the VM can move, and being busy there earns it credit. What the PF's port carried for all VFs together bounds the sum of
// their claims. And a VF that receives or sends raises interrupts on the host, unless the guest polls it.
//
// No witness proves a claim in a single sample: a VM can hide among the others' traffic, and it can raise interrupts at will. So
// no claim is believed forever. Every second of it costs credit, the more the fewer witnesses support it, and only a second of
// being busy on virtio earns credit (Earn seconds of it). Hence the bound that the tests verify:
//
//	time believed <= (Earn / cost of a second) * (time busy on virtio) + StartCredit / cost
//
// that is 1 (too few interrupts), 5 (no witness), 20 (one) or 100 times (both) what the host itself has seen. Colluding VMs do
// not change the bound: each earns only for itself, and together they cannot claim more than the port carried without each paying
// the full price for the excess.
//
// The port cannot be forged, and as VFs change holders over time it shows whose claims are true (port.go). The part of a NIC's
// claims that the port does not confirm costs as much as one with too few interrupts.
//
// A VM whose credit is used up counts as idle. If another VM wants the VF it goes there, and the next seconds on virtio show what
// was true; if none does, nothing happens.
package claim
