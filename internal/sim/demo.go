package sim

import (
	"fmt"
	"hash/fnv"
	"math"
	"time"
)

// DemoWorld is the host of FlexVF's multi-VM experiment (section 6.4) set in motion: VMs
// (100 there) in four groups that send 1472-byte packets at 20, 40, 80 and 100 thousand
// a second, VFs (63 there) on two PFs of 40 Gbit/s of one network, and groups that change places
// every ten minutes. The seed shifts what sets the VMs of a group apart.
func DemoWorld(start time.Time, vms, vfs int, seed uint64) *World {
	w := &World{Now: start, Timing: PaperTiming}
	w.AddPF("pf0", "br0", vfs-vfs/2, 0).Speed = 40e9
	w.AddPF("pf1", "br0", vfs/2, 1).Speed = 40e9
	for i := range vms {
		g := i % 4
		v := w.AddVM(i, fmt.Sprintf("%s-%02d", demoGroups[g], i/4), "br0", demoLoad{start: start, group: g, own: ownShare(seed, i)})
		v.Group, v.NUMA = demoGroups[g], i%2
	}
	return w
}

var (
	demoGroups = [4]string{"web", "db", "cache", "batch"}
	demoRates  = [4]float64{20e3, 40e3, 80e3, 100e3}
)

const demoShift = 10 * time.Minute

// demoLoad is one VM's load: its group's rate now, times a slow swing of its own.
type demoLoad struct {
	start time.Time
	group int
	own   float64 // 0..1, what sets the VM apart from its group
}

func ownShare(seed uint64, vm int) float64 {
	h := fnv.New32a()
	fmt.Fprint(h, seed, vm)
	return float64(h.Sum32()%1000) / 1000
}

// At implements Load.
func (d demoLoad) At(t time.Time) (pps, bytes, cpus float64) {
	since := t.Sub(d.start)
	phase := int(since / demoShift)
	swing := 1 + 0.1*math.Sin(2*math.Pi*(since.Seconds()/(120+120*d.own)+d.own))
	pps = demoRates[(d.group+phase)%4] * swing
	return pps, pps * 1472, pps / 200e3
}
