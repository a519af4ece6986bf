package model

import (
	"cmp"
	"strings"
	"time"
)

// Limit bounds what a NIC of a VM moves over one path in one direction. It names a
// desired state: applying it twice is harmless, and no Limit means that there is none.
//
// A Limit has two parts. The contract is the SLA's limit: it holds until it is lifted, also while no
// daemon runs. The rate is what the NIC is allowed at the moment so that others have what they are
// promised; where the enforcer can do so it ends by itself LimitLease after it was last applied, so that
// nobody is held down by a daemon that has died.
//
// The rate is never above the contract, but for functions of a virtual PF that has a limit. Their contracts divide that
// limit, for the time in which nobody does so by what they send; until the lease ends the rate counts in place of the
// contract. Only enforcers with leases have Limits of such functions.
type Limit struct {
	LimitKey
	Rate          // what is allowed now; 0 bits/s or packets/s: as much as the contract allows
	Contract Rate `json:"contract,omitzero"`
	// For enforcers that share a link by themselves; others ignore them.
	Guarantee uint64  `json:"guarantee_bits_s,omitempty"` // bits/s that it is promised
	Weight    float64 `json:"weight,omitempty"`           // its share of what is left over; 0: 1
}

// LimitLease is how long what is allowed holds unless it is applied again.
const LimitLease = 10 * time.Second

// LimitKey names what a Limit is about. Without VM it is about all that the taps behind the
// PF send on the virtio path together: the budget of an enforcer that shares it among them by itself.
type LimitKey struct {
	VM   VMID      `json:"vm,omitempty"`
	NIC  string    `json:"nic,omitempty"` // alias of the virtio NIC
	PF   string    `json:"pf,omitempty"`  // only where there is no VM
	Path Path      `json:"path"`
	Dir  Direction `json:"direction"`
}

// Lifts says whether the Limit asks for no limit at all.
func (l *Limit) Lifts() bool {
	return l.Bits == 0 && l.Packets == 0 && l.Contract.IsZero() && l.Guarantee == 0
}

// Tightest is the lower of what is allowed now and the contract, part by part: for enforcers that have one setting for both.
func (l *Limit) Tightest() Rate {
	return Rate{Bits: Lower(l.Bits, l.Contract.Bits), Packets: Lower(l.Packets, l.Contract.Packets)}
}

// InForce is what holds until the lease ends: what is allowed now where that is set, else the contract, part by part.
func (l *Limit) InForce() Rate {
	return Rate{Bits: cmp.Or(l.Bits, l.Contract.Bits), Packets: cmp.Or(l.Packets, l.Contract.Packets)}
}

// LimitError says why one Limit of a batch could not be applied.
type LimitError struct {
	Key LimitKey
	Err error
}

func (e *LimitError) Error() string { return e.Err.Error() }

// Unwrap is the reason.
func (e *LimitError) Unwrap() error { return e.Err }

// Lower is the lower of two limits, of which 0 is none.
func Lower(a, b uint64) uint64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Path is a way that a NIC's frames take.
type Path string

// The paths.
const (
	PathVF     Path = "vf"
	PathVirtio Path = "virtio"
)

// Direction is the guest's view of a frame.
type Direction string

// The directions.
const (
	Tx Direction = "tx" // what the guest sends
	Rx Direction = "rx" // what it receives
)

// CompareKeys orders Limits by VM, NIC, path and direction.
func CompareKeys(a, b LimitKey) int {
	return cmp.Or(cmp.Compare(a.VM, b.VM), strings.Compare(a.NIC, b.NIC), strings.Compare(a.PF, b.PF), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Dir, b.Dir))
}

// WholeMbit rounds a rate in bits/s as the kernel takes it for VFs, to whole Mbit/s, but
// never a limit to 0, which means none, nor beyond the 32 bits that it has for it.
func WholeMbit(bits uint64) uint64 {
	const mbit = 1e6
	if bits == 0 {
		return 0
	}
	return min(max(1, (bits+mbit/2)/mbit), 1<<32-1) * mbit
}
