package model

import (
	"slices"
	"strings"
	"time"
)

// Target is the desired state: which VM holds which VF behind which NIC, how much it may send, and why, for every VM. Applying a
// Target twice is harmless.
type Target struct {
	Time    time.Time    `json:"time"`
	Assign  []Assignment `json:"assign"`           // sorted by VM, then NIC
	Limits  []Limit      `json:"limits,omitempty"` // sorted by CompareKeys; what has none is not limited
	Reasons []Reason     `json:"reasons"`          // one for every VM of the Snapshot, in its order
	NICs    []Reason     `json:"nics,omitempty"`   // one for every NIC of each VM with several NICs that may have a VF, in order of VM
}

// NIC returns the Reason of one NIC of the VM at index i of the Snapshot: the NIC's own if the VM has several that may have a VF,
// else the VM's.
func (t *Target) NIC(i int, alias string) *Reason {
	why := &t.Reasons[i]
	at, _ := slices.BinarySearchFunc(t.NICs, why.VM, func(r Reason, vm VMID) int { return strings.Compare(string(r.VM), string(vm)) })
	for ; at < len(t.NICs) && t.NICs[at].VM == why.VM; at++ {
		if t.NICs[at].NIC == alias {
			return &t.NICs[at]
		}
	}
	return why
}

// Assignment gives a VF to a NIC of a VM.
type Assignment struct {
	VM  VMID   `json:"vm"`
	NIC string `json:"nic"`
	VF  VFID   `json:"vf"`
}
