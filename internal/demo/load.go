package demo

import (
	"fmt"
	"hash/fnv"
	"math"
	"time"
)

// Groups of VMs, and what each VM of one sends to begin with, packets/s.
var (
	groups = [4]string{"web", "db", "cache", "batch"}
	rates  = [4]float64{20e3, 40e3, 80e3, 100e3}
)

const (
	shift  = 10 * time.Minute // after which the groups change places
	packet = 1472             // bytes
)

// load is one VM's: its group's rate now, times a slow swing of its own.
type load struct {
	start time.Time
	group int
	own   float64 // 0..1, what sets the VM apart from its group
}

// ownShare spreads the VMs of a group; the seed changes how.
func ownShare(seed uint64, vm int) float64 {
	h := fnv.New32a()
	fmt.Fprint(h, seed, vm)
	return float64(h.Sum32()%1000) / 1000
}

// At implements sim.Load.
func (d load) At(t time.Time) (pps, bytes, cpus float64) {
	since := t.Sub(d.start)
	phase := int(since / shift)
	swing := 1 + 0.1*math.Sin(2*math.Pi*(since.Seconds()/(120+120*d.own)+d.own))
	pps = rates[(d.group+phase)%4] * swing
	return pps, pps * packet, pps / 200e3
}
