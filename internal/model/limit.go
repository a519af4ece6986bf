package model

import (
	"cmp"
	"strings"
)

// Limit bounds what a VM moves over one path of a NIC in one direction. It names a
// desired state: applying it twice is harmless, and no Limit means that there is none.
type Limit struct {
	LimitKey
	Bits uint64 `json:"bits_s"` // layer-2 bits/s; 0, in what is to be applied: lift the limit
}

// LimitKey names what a Limit is about.
type LimitKey struct {
	VM   VMID      `json:"vm"`
	NIC  string    `json:"nic"` // alias of the virtio NIC
	Path Path      `json:"path"`
	Dir  Direction `json:"direction"`
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
	return cmp.Or(cmp.Compare(a.VM, b.VM), strings.Compare(a.NIC, b.NIC), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Dir, b.Dir))
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
