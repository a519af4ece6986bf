// Package counters reads the counters of the kernel and NICs: interfaces, VFs and ports many times a second, and the CPU time of
// a VM's virtio.
package counters

import "sluice/internal/host/sysif"

// Counting opens CounterReaders, and reads what is needed rarely.
type Counting struct{ k *sysif.Kernel }

// New returns a Counting, which needs no closing.
func New(k *sysif.Kernel) *Counting { return &Counting{k} }
