package demo

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/internal/model"
	"sluice/internal/research/sim"
	"sluice/internal/research/workload"
)

// host is the simulated host: FlexVF's multi-VM experiment (section 6.4) with changing loads. VMs in four groups send
// 1472-byte packets at 20, 40, 80 and 100 thousand packets/s, the VFs are on two PFs of 40 Gbit/s on one network, and the
// groups swap rates every ten minutes. Further VMs and PFs exist for the troubles.
type host struct {
	*sim.World
	start time.Time
	seed  uint64
	vms   []*sim.VM // of the groups

	virtual virtualPFs
}

func newHost(start time.Time, vms, vfs int, seed uint64, troubles bool) *host {
	h := &host{World: &sim.World{Now: start, Timing: sim.PaperTiming}, start: start, seed: seed}
	if troubles {
		vms, vfs = vms-len(edgeLoads)-len(labNames), vfs-edgeVFs-labVFs
	}
	h.AddPF("pf0", "br0", vfs-vfs/2, 0).Speed = 40e9
	h.AddPF("pf1", "br0", vfs/2, 1).Speed = 40e9
	for i := range vms {
		g := i % len(groups)
		v := h.AddVM(i, fmt.Sprintf("%s-%02d", groups[g], i/len(groups)), "br0", load{start: start, group: g, own: ownShare(seed, i)})
		v.Group, v.NUMA = groups[g], i%2
		h.vms = append(h.vms, v)
	}
	if troubles {
		h.edge(vms)
		h.lab(vms + len(edgeLoads))
		h.misfits()
		h.repeat()
	}
	return h
}

// The network edge: an overcommitted link of 10 Gbit/s. One of its VMs has a VF that Sluice did not assign and cannot
// limit, so that a guarantee is not met at times.
const (
	edgeVFs   = 3
	edgeSpeed = 10e9
	promised  = 6e9   // bits/s, to each of the first two
	flood     = 600e3 // packets/s, in the bursts of the last VM
)

var edgeLoads = [4]float64{520e3, 480e3, 120e3, 60e3} // packets/s

func (h *host) edge(first int) {
	pf := h.AddPF("pf2", "br1", edgeVFs, 0)
	pf.Speed = edgeSpeed
	var v *sim.VM
	for i, pps := range edgeLoads {
		v = h.AddVM(first+i, fmt.Sprintf("edge-%02d", i), "br1", steady(pps, packet))
		v.Group = "edge"
		if i < 2 {
			v.SLAs = []model.NICSLA{{SLA: model.SLA{Guarantee: model.Rate{Bits: promised}, Source: "metadata of " + v.Name}}}
		}
	}
	h.node(h.VMs()[len(h.VMs())-2], "br1", h.start)
	nic, vf := v.NICs[0], &pf.VFs[edgeVFs-1]
	vf.MAC = nic.MAC
	nic.AttachForeign(vf.ID)
	nic.Blast = true
	v.Load = bursts{h.start, steady(edgeLoads[len(edgeLoads)-1], packet), steady(flood, packet)}
}

// bursts is a load that alternates between two loads.
type bursts struct {
	start     time.Time
	low, high sim.Load
}

const burst = 15 * time.Second

// At implements sim.Load.
func (b bursts) At(t time.Time) (pps, bytes, cpus float64) {
	if t.Sub(b.start)/burst%2 == 0 {
		return b.low.At(t)
	}
	return b.high.At(t)
}

func steady(pps, bytes float64) sim.Constant {
	return sim.Constant{PPS: pps, Bytes: pps * bytes, CPU: pps / 200e3}
}

// The network lab: its NIC has no per-VF counters, so that only the guests report their traffic, and one of them lies.
const (
	labVFs   = 2
	labSpeed = 1e9
	lie      = 400e3 // packets/s it reports, whatever it moves
)

var labNames = [4]string{"lab-00", "lab-01", "lab-02", "lab-liar"}

func (h *host) lab(first int) {
	pf := h.AddPF("pf3", "br2", labVFs, 1)
	pf.Speed, pf.Caps.VFCounters = labSpeed, model.No
	for i, name := range labNames {
		pps := 10e3 + 4e3*float64(i)
		v := h.AddVM(first+i, name, "br2", steady(pps, 200))
		v.Group = "lab"
		if i == len(labNames)-1 { // it floods virtio until it gets a VF, and then moves almost nothing
			v.Load = &small{workload.Flood{
				VM: v, PPS: 24e3, From: h.start.Add(20 * time.Second), For: time.Minute, Rest: 10 * time.Minute,
				Idle: 10,
			}}
		}
	}
	claims := &workload.Claims{Port: true, Say: func(vm *model.VM, _ time.Time, pps float64) (float64, bool) {
		if vm.Name == labNames[len(labNames)-1] {
			return lie, true
		}
		return pps, true
	}}
	h.Patch = claims.Patch
}

// small is a flood of small packets.
type small struct{ workload.Flood }

// At implements sim.Load.
func (s *small) At(t time.Time) (pps, bytes, cpus float64) {
	pps, _, cpus = s.Flood.At(t)
	return pps, pps * 100, cpus
}

// misfits misconfigures some VMs permanently.
func (h *host) misfits() {
	h.vms[4].NoTeaming = true // web-01
	h.vms[6].NoPort = true    // cache-01
	h.vms[7].NoDriver = true  // batch-01
}

var errPlug = errors.New("internal error: unable to execute QEMU command 'device_add': " +
	"vfio 0000:42:10.3: failed to open /dev/vfio/87: Device or resource busy")

// repeat sets up the recurring troubles.
func (h *host) repeat() {
	busy := false
	h.Fail = func(s model.Step) error {
		if busy && s.Kind == model.StepAttach && slices.ContainsFunc(h.vms[8:16], func(v *sim.VM) bool { return v.ID == s.Subject.VM }) {
			return errPlug
		}
		return nil
	}
	h.between(0, 2*time.Minute, shift, func(on bool) { busy = on }) // while the groups swap rates
	h.between(4*time.Minute, 5*time.Minute, 2*shift, func(on bool) { h.PFs()[1].LinkUp = !on })
}

// between calls f(true) at after, f(false) long later, and repeats both with period every.
func (h *host) between(after, long, every time.Duration, f func(on bool)) {
	at := h.start.Add(after)
	var begin func()
	begin = func() {
		f(true)
		h.At(at.Add(long), func() { f(false) })
		at = at.Add(every)
		h.At(at, begin)
	}
	h.At(at, begin)
}
