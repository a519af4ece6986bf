// Package model holds Sluice's nouns: what was seen (Snapshot), what should be
// (Target), one change (Step), an ordered set of them for one VM (Move) and why
// (Reason). It has no behaviour beyond naming, printing and looking things up,
// and imports nothing of ours.
//
// Units: packet rates are packets per second, byte rates are bytes per second
// of layer-2 payload as the kernel counts them, line rates are bits per second.
// Slices in a Snapshot are sorted (PFs by name, VFs by index, VMs by ID) so that
// equal worlds print equally.
package model
