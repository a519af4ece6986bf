// Package counters reads what the kernel and NICs count: interfaces, VFs and ports many times a second, and the CPU time of a VM's virtio.
package counters

import "sluice/internal/host/sysif"

// Counting opens readers, and reads what is seldom asked for.
type Counting struct{ k *sysif.Kernel }

// New needs no closing.
func New(k *sysif.Kernel) *Counting { return &Counting{k} }
