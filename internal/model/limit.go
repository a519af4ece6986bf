package model

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Limit bounds what a NIC of a VM moves over one path in one direction. It is a desired state: applying it twice is harmless, and
// without a Limit the NIC is not limited.
//
// A Limit has two parts. The contract is the SLA's limit: it holds until it is lifted, even while no daemon runs. The rate is
// what the NIC is currently allowed so that others get what they are promised. If the enforcer can do so, the rate expires
// LimitLease after it was last applied, so that a daemon that has died restricts nobody.
//
// The rate is never above the contract, except for functions of a virtual PF that has a limit. Their contracts divide that limit
// for times when no daemon divides it by current demand; until the lease ends the rate replaces the contract. Only enforcers with
// leases have Limits of such functions.
type Limit struct {
	LimitKey
	Rate          // currently allowed; 0 bits/s or packets/s: as much as the contract allows
	Contract Rate `json:"contract,omitzero"`
	// For enforcers that share a link by themselves; others ignore these.
	Guarantee uint64  `json:"guarantee_bits_s,omitempty"` // guaranteed bits/s
	Weight    float64 `json:"weight,omitempty"`           // share of the spare capacity; 0: 1
}

// LimitLease is how long a rate holds unless it is applied again.
const LimitLease = 10 * time.Second

// LimitKey identifies the traffic that a Limit bounds. Without a VM this is all that the taps behind the PF send on the virtio
// path together: the budget of an enforcer that shares it among them by itself.
type LimitKey struct {
	VM   VMID      `json:"vm,omitempty"`
	NIC  string    `json:"nic,omitempty"` // alias of the virtio NIC
	PF   string    `json:"pf,omitempty"`  // only if there is no VM
	Path Path      `json:"path"`
	Dir  Direction `json:"direction"`
}

// Lifts reports whether the Limit asks for no limit at all.
func (l *Limit) Lifts() bool {
	return l.IsZero() && l.Contract.IsZero() && l.Guarantee == 0 && l.Weight == 0
}

// Tightest returns the lower of rate and contract, part by part, for enforcers that have one setting for both.
func (l *Limit) Tightest() Rate {
	return Rate{Bits: Lower(l.Bits, l.Contract.Bits), Packets: Lower(l.Packets, l.Contract.Packets)}
}

// InForce returns what holds until the lease ends: the rate if set, else the contract, part by part.
func (l *Limit) InForce() Rate {
	return Rate{Bits: cmp.Or(l.Bits, l.Contract.Bits), Packets: cmp.Or(l.Packets, l.Contract.Packets)}
}

// LimitError is why one Limit of a batch could not be applied.
type LimitError struct {
	Key LimitKey
	Err error
}

func (e *LimitError) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *LimitError) Unwrap() error { return e.Err }

// Lower returns the lower of two limits; 0 means none.
func Lower(a, b uint64) uint64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Path is one of the two ways that a NIC's frames can take.
type Path string

// Values of Path.
const (
	PathVF     Path = "vf"
	PathVirtio Path = "virtio"
)

// Direction is a direction as the guest sees it.
type Direction string

// Values of Direction.
const (
	Tx Direction = "tx" // what the guest sends
	Rx Direction = "rx" // what it receives
)

// CompareKeys orders Limits by VM, NIC, PF, path and direction.
func CompareKeys(a, b LimitKey) int {
	return cmp.Or(cmp.Compare(a.VM, b.VM), strings.Compare(a.NIC, b.NIC), strings.Compare(a.PF, b.PF), cmp.Compare(a.Path, b.Path),
		cmp.Compare(a.Dir, b.Dir))
}

// VFRate returns the rate in bits/s to which limits, sorted by CompareKeys, set what a NIC sends through its VF; 0: none.
func VFRate(limits []Limit, id NICID) uint64 {
	key := LimitKey{VM: id.VM, NIC: id.NIC, Path: PathVF, Dir: Tx}
	i, ok := slices.BinarySearchFunc(limits, key, func(l Limit, k LimitKey) int { return CompareKeys(l.LimitKey, k) })
	if !ok {
		return 0
	}
	return limits[i].Bits
}

// WholeMbit rounds a rate in bits/s to whole Mbit/s, as the kernel takes it for VFs. It never rounds a limit to 0, which means
// none, nor beyond the kernel's 32 bits.
func WholeMbit(bits uint64) uint64 {
	const mbit = 1e6
	if bits == 0 {
		return 0
	}
	return min(max(1, (bits+mbit/2)/mbit), 1<<32-1) * mbit
}
