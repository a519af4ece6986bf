// Package sim is a simulated host in virtual time: PFs, VFs, VMs, a bridge, and guests that fail in all the ways real ones do. The
// loop's own Core runs on it, so the simulator shows what the daemon would do. Nothing here reads a clock or uses randomness that was
// not passed in.
package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/model"
)

// World is the simulated host. Its zero value is an empty host; use AddPF and AddVM.
type World struct {
	Now    time.Time
	Timing Timing
	// Fail, when set, is called before a Step takes effect; its error is the Step's result.
	Fail func(s model.Step) error
	// FailLimit, when set, is called before a Limit is applied; its error is the result.
	FailLimit func(l model.Limit) error
	// Sense, when set, distorts a true load on its way into a Snapshot: noise, lag, blackouts.
	Sense func(vm *VM, pps, bytes float64) (seenPPS, seenBytes float64, known bool)

	// Patch, when set, changes a Snapshot before it is returned, for facts that the world does not model.
	Patch func(s *model.Snapshot)

	// FailPart, when set, is called before each part of a Step (numbered from 0); its error is the Step's result, and the parts before it
	// remain done.
	FailPart func(s model.Step, part int) error
	// Lag is the maximum age of settings of VFs, filters, bridge entries and mirrors in a Snapshot.
	Lag time.Duration
	// LagInGuest delays by one Snapshot whether a guest uses its VF.
	LagInGuest bool
	// NoMirror simulates a kernel without TCX: there is no mirror.
	NoMirror bool

	pfs     []*PF
	vms     []*VM             // sorted by ID
	mirrors map[mirror]string // frames that are copied, and to which PF
	fdb     map[address]string
	slow    *settings // what a Snapshot shows, with Lag
	down    bool      // libvirt does not answer
	bufs    [2]model.Snapshot
	turn    int

	traffic *Traffic // nil: every load is carried whole
	queue   events
	seq     uint64
}

// address is the key of a bridge entry.
type address struct {
	network string
	mac     model.MAC
}

// mirror identifies frames that are copied: those that the bridge sends to a MAC through a tap.
type mirror struct {
	tap string
	mac model.MAC
}

// Timing is how long Steps take.
type Timing struct {
	Kernel time.Duration // netlink and sysfs changes
	Attach time.Duration // libvirt's attach call
	Guest  time.Duration // until the guest's driver has opened the VF
	Detach time.Duration // libvirt's detach call
	Gone   time.Duration // from then until libvirt reports the device gone
	Close  time.Duration // how long before that the guest's driver closes the VF
}

// PaperTiming adds up to FlexVF's Table 2: 640 ms to plug, 56 ms to unplug.
var PaperTiming = Timing{
	Kernel: time.Millisecond,
	Attach: 230 * time.Millisecond,
	Guest:  401 * time.Millisecond,
	Detach: 10 * time.Millisecond,
	Gone:   39 * time.Millisecond,
}

// PF is a simulated physical function with VFs on one network. If its Caps say that it has no counters per VF, a VF's load is what the
// guest's agent claims.
type PF struct {
	model.PF
	Carries float64 // bits/s that its link really carries; 0: its Speed
	self    map[model.MAC]bool
	kind    traits            // of its Uplink
	joined  map[string]string // its representors that are ports, and of which network's switch
	stopped bool              // its switch's database does not answer
}

// VM is a simulated guest with one virtio NIC or more.
type VM struct {
	ID    model.VMID
	Name  string
	Group string // load group, shown to people
	NUMA  int
	State model.VMState
	Load  Load   // true load, of all NICs
	VCPUs int    // 0: one
	NICs  []*NIC // at least one; see AddNIC

	NoTeaming    bool // its NICs have no <teaming>
	NoPort       bool // no free root port
	Ports        int  // root ports for VFs; 0: as many as it needs
	NoDriver     bool // the guest has no driver for VFs
	IgnoreUnplug bool // the guest never releases a device
	Blind        bool // its load on the VF path is unknown
	InGuest      bool // its guest agent can set limits
	Lies         bool // its guest lifts limits that were set in it

	SLAs []model.NICSLA // what its metadata asks for
	// Slow is how much longer than usual the guest takes to open or release a VF.
	Slow time.Duration

	booting bool // the guest receives nothing
	gone    bool
	job     time.Time // when libvirt's present job on the domain ends
}

// Load is what a VM wants to move at a time, on either path.
type Load interface {
	At(t time.Time) (pps, bytesPerSecond, cpus float64)
}

// Constant is a Load that does not change.
type Constant struct{ PPS, Bytes, CPU float64 }

// At implements Load.
func (c Constant) At(time.Time) (float64, float64, float64) { return c.PPS, c.Bytes, c.CPU }

// AddPF adds a PF with n VFs of Sluice's pool.
func (w *World) AddPF(name, network string, n int, numa int) *PF {
	p := &PF{self: map[model.MAC]bool{}}
	p.PF = model.PF{
		Name: name, Index: 2 + len(w.pfs), Driver: "sim", Network: network, NUMANode: numa, LinkUp: true, Speed: 10e9,
		NumVFs: n, TotalVFs: n, Managed: true, MAC: model.MAC{2, 0xff, 0, 0, 0, byte(len(w.pfs))},
		Caps:    model.Caps{MaxTxRate: model.Yes, MinTxRate: model.No, VFCounters: model.Yes, Trust: model.Yes},
		Address: model.PCIAddress(fmt.Sprintf("0000:%02x:00.0", 1+len(w.pfs))),
	}
	p.SetNumVFs(n)
	w.pfs = append(w.pfs, p)
	slices.SortFunc(w.pfs, func(a, b *PF) int { return strings.Compare(a.Name, b.Name) })
	return p
}

// SetNumVFs destroys and makes VFs, as a write to sriov_numvfs does.
func (p *PF) SetNumVFs(n int) {
	p.VFs = make([]model.VF, n)
	for i := range p.VFs {
		p.VFs[i] = model.VF{
			ID: model.VFID{PF: p.Name, Index: i}, Driver: "vfio-pci", SpoofCheck: model.Yes, Trust: model.No,
			Address: model.PCIAddress(fmt.Sprintf("%s:%02x.%d", p.Address[:7], 0x10+i/8, i%8)),
		}
	}
	p.NumVFs = n
	p.represent()
}

// AddVM adds a running VM on a network. Numbers begin at 0; the ID and MAC follow from the number.
func (w *World) AddVM(number int, name, network string, load Load) *VM {
	return w.AddVMAs(NumberedVM(number), number, name, network, load)
}

// NumberedVM returns the UUID that AddVM gives.
func NumberedVM(number int) model.VMID {
	return model.VMID(fmt.Sprintf("00000000-0000-4000-8000-%012x", number))
}

// AddVMAs is AddVM with a given UUID.
func (w *World) AddVMAs(id model.VMID, number int, name, network string, load Load) *VM {
	if w.fdb == nil {
		w.fdb, w.mirrors = map[address]string{}, map[mirror]string{}
	}
	v := &VM{ID: id, Name: name, NUMA: -1, State: model.VMRunning, Load: load}
	v.NICs = []*NIC{{
		VM: v, Alias: "ua-net0", Net: network, Share: 1, tap: "tap-" + name,
		MAC: model.MAC{0x52, 0x54, byte(number >> 24), byte(number >> 16), byte(number >> 8), byte(number)},
	}}
	i, _ := w.find(id)
	w.vms = slices.Insert(w.vms, i, v)
	return v
}

// Destroy ends a VM at once. Its taps go with everything attached to them, and its VFs return to the host as they are. A bridge entry
// that points to a PF remains.
func (w *World) Destroy(v *VM) {
	v.gone = true
	w.forget(v, false)
	for _, n := range v.NICs {
		n.open, n.hasVF, n.asked = false, model.NoVF, false
		if w.fdb[n.address()] == n.tap || w.kindOf(n.Net).program {
			delete(w.fdb, n.address())
		}
		delete(w.mirrors, n.mirror())
	}
	w.vms = slices.DeleteFunc(w.vms, func(x *VM) bool { return x == v })
	for _, n := range v.NICs {
		n.changed()
	}
}

// LibvirtDown stops or restarts libvirtd. There are no Snapshots while it is down.
func (w *World) LibvirtDown(down bool) { w.down = down }

// Reread makes the next Snapshot show everything as it is now, as in a new process.
func (w *World) Reread() { w.slow = nil }

// VMs lists the VMs in order of ID.
func (w *World) VMs() []*VM { return w.vms }

// PFs lists the PFs in order of name.
func (w *World) PFs() []*PF { return w.pfs }

// find returns the place of a VM in vms, and whether it is there.
func (w *World) find(id model.VMID) (int, bool) {
	return slices.BinarySearchFunc(w.vms, id, func(a *VM, id model.VMID) int { return cmp.Compare(a.ID, id) })
}

func (w *World) vm(id model.VMID) *VM {
	if i, ok := w.find(id); ok {
		return w.vms[i]
	}
	return nil
}

func (w *World) pf(name string) *PF {
	for _, p := range w.pfs {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// counts reports whether the PF's driver has counters for a VF.
func (w *World) counts(id model.VFID) bool {
	p := w.pf(id.PF)
	return p == nil || p.Caps.VFCounters == model.Yes
}

func (w *World) vf(id model.VFID) *model.VF {
	if p := w.pf(id.PF); p != nil && id.Index < len(p.VFs) {
		return &p.VFs[id.Index]
	}
	return nil
}
