package demo

import (
	"fmt"
	"hash/fnv"
	"math"
	"time"
)

// Groups of VMs, and the initial packets/s of each VM of a group.
var (
	groups = [4]string{"web", "db", "cache", "batch"}
	rates  = [4]float64{20e3, 40e3, 80e3, 100e3}
)

const (
	shift  = 10 * time.Minute // after which the groups swap rates
	packet = 1472             // bytes
)

// load is one VM's load: its group's current rate times a slow oscillation of its own.
type load struct {
	start time.Time
	group int
	own   float64 // 0..1, distinguishes the VM within its group
}

// ownShare varies the VMs of a group, depending on the seed.
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
