// Package claim says how much of what guests claim of their VFs is believed, where the NIC
// counts nothing for a VF and the guest agent is the only one to ask.
//
// The host has three witnesses of its own. What a VM moves on virtio is counted by the host's
// kernel: that is the proof of what it can move, and being busy there earns it time. What
// the PF's port carried for all VFs together bounds the sum of their claims. And a VF that
// receives or sends interrupts the host, unless it is being polled.
//
// No witness proves a claim at one look. A VM can hide among the others' traffic, and it can raise
// interrupts at will. So no claim is believed for ever: every second of it costs credit, the more the
// less supports it, and only a second of being busy on virtio earns credit, Earn seconds of
// it. Hence the bound that the tests hold the code to:
//
//	time believed <= (Earn / cost of a second) * (time busy on virtio) + StartCredit / cost
//
// that is 1 (too few interrupts), 5 (no witness), 20 (one) or 100 times (both) what the host
// itself has seen. Accomplices do not change it, as
// everyone earns for itself, and they cannot claim together more than the port carried
// without each paying the full price for the rest.
//
// The port cannot be forged, and over many changes of hands it shows whose claims are true
// (port.go). What it does not bear out of a NIC's claims costs as much as too few interrupts do.
//
// When the credit is used up the VM counts as idle. If another one wants the VF it goes
// there, and the next seconds on virtio show what was true; if nobody does, nothing happens.
package claim
