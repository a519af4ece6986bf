// Package model defines Sluice's data types: the observed state (Snapshot), the desired state (Target), one change (Step), an
// ordered set of them for one VM (Move) and why (Reason). It has no behaviour beyond naming, printing and looking things up, and
// imports no other package of Sluice.
//
// Units: packet rates are packets per second, byte rates are bytes per second of layer-2 payload as the kernel counts them, line
// rates are bits per second. Slices in a Snapshot are sorted (PFs by name, VFs by index, VMs by ID) so that equal states print
// equally.
package model
