package plan

import (
	"testing"

	"sluice/internal/model"
)

// A Checker that is reused notices VMs that come, go and change their MACs.
func TestSharedMACsOverTime(t *testing.T) {
	c := NewChecker()
	count := func(s *model.Snapshot) (n int) {
		for _, f := range c.Check(s, nobody{}, DefaultTimeouts) {
			if f.Code == FindDuplicateMAC {
				n++
			}
		}
		return n
	}
	clone := world()
	clone.VMs[1].NICs[0].MAC = macA
	alone := world()
	alone.VMs = alone.VMs[:1]
	renamed := world()
	renamed.VMs[1].NICs[0].MAC, renamed.VMs[1].Name = macA, "c"
	for i, step := range []struct {
		s    *model.Snapshot
		want int
	}{{world(), 0}, {clone, 2}, {clone, 2}, {alone, 0}, {clone, 2}, {renamed, 2}, {world(), 0}} {
		if n := count(step.s); n != step.want {
			t.Errorf("snapshot %d: %d findings, want %d", i, n, step.want)
		}
	}
}
