package bandwidth

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
)

var t0 = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// rig is a Core with a host of VMs on one bridge behind pf0, whose counters the test moves.
type rig struct {
	t     testing.TB
	c     *Core
	now   time.Time
	world World
	count map[model.NICID]*[2]Reading
	rates map[model.NICID][2]model.Rate // what each sends, by path
	dead  map[model.NICID]bool          // not read
	left  map[model.NICID]bool          // its VF has gone, and the Snapshot does not show it yet
	named map[string]string             // enforcer by "path dir"; "": none
	stand map[model.LimitKey]model.Limit
	fail  func(model.Limit) error
	batch []Order // the last one

	port   float64 // bits/s that leave pf0
	portAt Reading // the port's
}

const period = 200 * time.Millisecond

// tenth is an Allocator that gives each sender its guarantee, or a tenth of the link.
type tenth struct {
	link    Link
	senders []Sender
	carries float64 // what it takes the link's capacity for, if that is not its speed
	less    bool    // it keeps no guarantee
}

func (f *tenth) Capacity() float64 { return cmp.Or(f.carries, f.link.Speed) }

func (f *tenth) Allocate(_ time.Time, l Link, senders []Sender, out []Allowance) {
	f.link, f.senders = l, append(f.senders[:0], senders...)
	for i := range senders {
		out[i] = Unlimited
		if out[i].Bits = max(float64(senders[i].SLA.Guarantee.Bits), l.Speed/10); f.less {
			out[i].Bits = 3e9
		}
	}
}

func newRig(t testing.TB, vms int) *rig {
	kinds["tenth"] = kind{model.AllocatorInfo{Bits: true, Kernel: true}, func() Allocator { return &tenth{} }}
	c, err := NewCore(Options{Mode: model.ModeEnforce, Allocator: "tenth", Period: period})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{
		t: t, c: c, now: t0, count: map[model.NICID]*[2]Reading{}, rates: map[model.NICID][2]model.Rate{}, dead: map[model.NICID]bool{},
		left:  map[model.NICID]bool{},
		named: map[string]string{"virtio tx": "police", "virtio rx": "police", "vf tx": "max_tx_rate"}, stand: map[model.LimitKey]model.Limit{},
	}
	snap := &model.Snapshot{PFs: []model.PF{{
		Name: "pf0", Network: "br0", Managed: true, LinkUp: true, Speed: 10e9,
		Uplink: model.Uplink{Switch: "br0"}, Caps: model.Caps{MaxTxRate: model.Yes},
	}}}
	for i := range 4 {
		snap.PFs[0].VFs = append(snap.PFs[0].VFs, model.VF{ID: model.VFID{PF: "pf0", Index: i}})
	}
	for i := range vms {
		snap.VMs = append(snap.VMs, model.VM{
			ID: vm(i), Name: fmt.Sprintf("vm%d", i), State: model.VMRunning,
			NICs: []model.NIC{{Alias: "n0", Network: "br0"}},
		})
	}
	r.world = World{Snapshot: snap, Enforcer: func(k model.LimitKey) (string, model.Tri) {
		name := r.named[string(k.Path)+" "+string(k.Dir)]
		if k.VM == "" && name != "htb" {
			return "", model.No
		}
		if _, _, function := model.ParseVPFAlias(k.NIC); function && name == "htb" {
			name = "police"
		}
		return name, model.TriOf(name != "")
	}}
	return r
}

func vm(i int) model.VMID         { return model.VMID(fmt.Sprintf("vm-%04d", i)) }
func nicOf(i int) model.NICID     { return model.NICID{VM: vm(i), NIC: "n0"} }
func (r *rig) nic(i int) *nic     { return r.c.byID[nicOf(i)] }
func (r *rig) vm(i int) *model.VM { return &r.world.Snapshot.VMs[i] }

// useAllocator makes the Core use another Allocator.
func (r *rig) useAllocator(name string) {
	r.t.Helper()
	if err := r.c.SetOptions(Options{Mode: model.ModeEnforce, Allocator: name, Period: period}); err != nil {
		r.t.Fatal(err)
	}
}

// rule gives a VM an SLA.
func (r *rig) rule(i int, s model.SLA) {
	r.world.Rules.VMs = append(r.world.Rules.VMs, model.VMRule{Match: fmt.Sprintf("vm%d", i), SLA: s})
}

// plug gives a VM's first NIC a VF that its guest uses.
func (r *rig) plug(i, vf int) {
	v := &r.world.Snapshot.PFs[0].VFs[vf]
	v.Owner, v.Holder, v.InGuest = model.OwnerSluice, vm(i), model.Yes
	n := &r.vm(i).NICs[0]
	n.VF, n.VFOwner = v.ID, model.OwnerSluice
}

// send makes a NIC send on a path from now on, in wire bits/s with packets of 1514 bytes.
func (r *rig) send(id model.NICID, p model.Path, bits float64) {
	x := r.rates[id]
	x[pathIndex(p)] = model.Rate{Bits: uint64(bits), Packets: uint64(bits / (8 * (1514 + wireBytes)))}
	r.rates[id] = x
}

func (r *rig) follow() {
	r.world.Snapshot.Time, r.world.Snapshot.Read = r.now, r.now
	r.c.Follow(r.now, r.world)
}

// tick advances a period and applies what the Core orders.
func (r *rig) tick() []Order {
	r.apply(r.decide())
	return r.batch
}

// decide advances a period.
func (r *rig) decide() []Order {
	r.now = r.now.Add(period)
	var read []Reading
	for i := range r.world.Snapshot.VMs {
		for k := range r.vm(i).NICs {
			in := &r.vm(i).NICs[k]
			id := model.NICID{VM: vm(i), NIC: in.Alias}
			if r.count[id] == nil {
				r.count[id] = &[2]Reading{
					{NIC: id, Path: model.PathVirtio, Device: 1, Proof: model.ProofKernel},
					{NIC: id, Path: model.PathVF, Device: 2, Proof: model.ProofHardware},
				}
			}
			for p := range r.count[id] {
				x, rate := &r.count[id][p], r.rates[id][p]
				x.At = r.now
				x.TxPackets += uint64(float64(rate.Packets) * period.Seconds())
				x.TxBytes += uint64((float64(rate.Bits)/8 - wireBytes*float64(rate.Packets)) * period.Seconds())
				if !r.dead[id] && (p == 0 || in.VF != model.NoVF && !r.left[id]) {
					read = append(read, *x)
				}
			}
		}
	}
	if r.port > 0 {
		r.portAt.NIC, r.portAt.At = model.NICID{NIC: "pf0"}, r.now
		r.portAt.TxBytes += uint64(r.port / 8 * period.Seconds())
		read = append(read, r.portAt)
	}
	r.batch = append([]Order(nil), r.c.Tick(r.now, read)...)
	return r.batch
}

func (r *rig) apply(batch []Order) {
	var errs []error
	var ok []model.Limit
	for _, l := range LimitsOf(batch) {
		if r.fail != nil {
			if err := r.fail(l); err != nil {
				errs = append(errs, &model.LimitError{Key: l.LimitKey, Err: err})
				continue
			}
		}
		ok = append(ok, l)
		if r.stand[l.LimitKey] = l; l.Lifts() {
			delete(r.stand, l.LimitKey)
		}
		if vf, _ := r.world.Snapshot.VFBehind(l.VM, l.NIC); vf != nil && l.Path == model.PathVF && l.Dir == model.Tx {
			vf.MaxTxRate = model.WholeMbit(l.Tightest().Bits)
		}
	}
	if len(batch) > 0 {
		r.c.Applied(r.now, batch, ok, errors.Join(errs...))
	}
}

func (r *rig) run(d time.Duration) {
	for range int(d / period) {
		r.tick()
	}
}

func key(i int, p model.Path, d model.Direction) model.LimitKey {
	return model.LimitKey{VM: vm(i), NIC: "n0", Path: p, Dir: d}
}

func gbit(n float64) model.Rate { return model.Rate{Bits: uint64(n * 1e9)} }

// If nobody has a guarantee or limit, nothing is limited and nothing is attached.
func TestNothingAskedForIsNothingDone(t *testing.T) {
	r := newRig(t, 3)
	r.plug(1, 0)
	r.follow()
	r.send(nicOf(0), model.PathVirtio, 9e9)
	for range 50 {
		if b := r.tick(); len(b) > 0 {
			t.Fatalf("applied %+v", b)
		}
	}
	v := r.c.View()
	if n := v.NICs[0]; n.Code != model.BandwidthFree || n.Allowed != (model.Rate{}) || n.PF != "pf0" || n.Sent.Bits < 8.9e9 ||
		n.Sent.Bits > 9.1e9 {
		t.Errorf("%+v", n)
	}
}

// Limits without any guarantee are contracts; nothing else is set.
func TestLimitsAloneAreContracts(t *testing.T) {
	r := newRig(t, 3)
	r.rule(0, model.SLA{Limit: gbit(2), Receive: gbit(1)})
	r.rule(1, model.SLA{Limit: gbit(3)})
	r.plug(1, 0)
	r.follow()
	r.run(2 * time.Second)
	want := map[model.LimitKey]uint64{
		key(0, model.PathVirtio, model.Tx): 2e9, key(0, model.PathVirtio, model.Rx): 1e9,
		key(1, model.PathVirtio, model.Tx): 3e9, key(1, model.PathVF, model.Tx): 3e9,
	}
	if len(r.stand) != len(want) {
		t.Errorf("%d limits stand: %+v", len(r.stand), r.stand)
	}
	for k, bits := range want {
		if l := r.stand[k]; l.Contract.Bits != bits || !l.IsZero() || l.Guarantee != 0 {
			t.Errorf("%+v: %+v, want a contract of %d and no more", k, l, bits)
		}
	}
}

// A guarantee limits the others on both of their paths; when it is removed, all limits are lifted.
func TestGuaranteeLimitsOthersAndIsLifted(t *testing.T) {
	r := newRig(t, 3)
	r.rule(0, model.SLA{Guarantee: gbit(4)})
	r.plug(1, 0)
	r.follow()
	r.run(time.Second)
	for i, bits := range []uint64{4e9, 1e9, 1e9} {
		if l := r.stand[key(i, model.PathVirtio, model.Tx)]; l.Bits != bits {
			t.Errorf("vm%d on virtio: %+v, want %d", i, l, bits)
		}
	}
	if l := r.stand[key(1, model.PathVF, model.Tx)]; l.Bits != 1e9 {
		t.Errorf("vm1's VF: %+v", l)
	}
	if _, ok := r.stand[key(2, model.PathVF, model.Tx)]; ok {
		t.Error("vm2 has no VF to limit")
	}
	r.world.Rules.VMs = nil
	r.follow()
	r.run(time.Second)
	if len(r.stand) > 0 {
		t.Errorf("stand still: %+v", r.stand)
	}
}

// A limit in force is renewed well within its lease; a VF's rate, which has no lease, is left alone.
func TestLeasesAreRenewed(t *testing.T) {
	r := newRig(t, 2)
	r.rule(0, model.SLA{Guarantee: gbit(4)})
	r.plug(1, 0)
	r.follow()
	last, applied := map[model.LimitKey]time.Time{}, map[model.LimitKey]int{}
	for range 150 { // 30 s
		for _, l := range r.tick() {
			last[l.LimitKey] = r.now
			applied[l.LimitKey]++
		}
		for k, at := range last {
			if k.Path == model.PathVirtio && r.now.Sub(at) > model.LimitLease/2 {
				t.Fatalf("%+v was last applied %s ago", k, r.now.Sub(at))
			}
		}
	}
	if n := applied[key(1, model.PathVF, model.Tx)]; n != 1 {
		t.Errorf("the VF's rate was set %d times", n)
	}
	if n := applied[key(1, model.PathVirtio, model.Tx)]; n > 12 {
		t.Errorf("a lease of 10 s was renewed %d times in 30 s", n)
	}
	if c := r.c.View().Changes; c != 3 {
		t.Errorf("%d changes, want 3: renewals are none", c)
	}
}

// Resets, other devices, and lost or repeated readings do not produce rates that never occurred.
func TestReadingsThatMislead(t *testing.T) {
	for name, spoil := range map[string]func(r *rig, x *Reading){
		"counters begin anew": func(_ *rig, x *Reading) { x.TxBytes, x.TxPackets = 0, 0 },
		"another device":      func(_ *rig, x *Reading) { x.Device++; x.TxBytes += 1 << 40 },
		"a lost reading":      func(r *rig, _ *Reading) { r.dead[nicOf(0)] = true; r.tick(); delete(r.dead, nicOf(0)) },
		"the same time twice": func(r *rig, x *Reading) { r.c.Tick(r.now, []Reading{*x}) },
	} {
		r := newRig(t, 1)
		r.follow()
		r.send(nicOf(0), model.PathVirtio, 1e9)
		r.run(time.Second)
		spoil(r, &r.count[nicOf(0)][0])
		for range 5 {
			r.tick()
			if got := r.nic(0).sent.Bits; got < 0.99e9 || got > 1.01e9 {
				t.Errorf("%s: sends %g bit/s, want 1e9", name, got)
			}
		}
		if !r.nic(0).known {
			t.Errorf("%s: unknown in the end", name)
		}
	}
}

// The drops of the policers of a tap and of a VF's representor are shown, each on its path, also in a period without a reading.
func TestDroppedIsShown(t *testing.T) {
	for _, p := range []model.Path{model.PathVirtio, model.PathVF} {
		r := newRig(t, 1)
		r.plug(0, 0)
		r.follow()
		drops := model.Dropped{Tx: 7, Rx: 3}
		want := map[model.Path]model.Dropped{p: drops}
		for _, readings := range [][]Reading{
			{{NIC: nicOf(0), Path: p, Device: 1, At: r.now.Add(time.Second), Dropped: drops}},
			nil,
		} {
			r.c.Tick(r.now.Add(time.Second), readings)
			if n := r.c.View().NICs[0]; n.Dropped != want[model.PathVirtio] || n.DroppedVF != want[model.PathVF] {
				t.Errorf("%s: shows %+v and on the VF %+v", p, n.Dropped, n.DroppedVF)
			}
		}
	}
}

// A tap counts a large send as one packet with one header; on the wire it is many frames.
func TestLargeSendsAreCountedAsFrames(t *testing.T) {
	for _, c := range []struct {
		name           string
		proof          model.Proof
		bytes, packets float64
		wantBits       float64
		wantPackets    float64
	}{
		{"sends of 45 segments", model.ProofKernel, 1000 * (66 + 45*1448), 1000, 45_000 * 1538 * 8, 45_000},
		{"two segments", model.ProofKernel, 1000 * (66 + 2*1448), 1000, 2000 * 1538 * 8, 2000},
		{"full frames", model.ProofKernel, 1000 * 1514, 1000, 1000 * 1538 * 8, 1000},
		{"small frames", model.ProofKernel, 1000 * 60, 1000, 1000 * 84 * 8, 1000},
		{"nothing", model.ProofKernel, 0, 0, 0, 0},
		{"large frames on a NIC", model.ProofHardware, 1000 * 9014, 1000, 1000 * 9038 * 8, 1000},
	} {
		r := rateReading(c.bytes, c.packets, c.proof)
		if math.Abs(r.Bits-c.wantBits) > 1 || math.Abs(r.Packets-c.wantPackets) > 0.001 {
			t.Errorf("%s: %.0f bit/s in %.0f packets, want %.0f in %.0f", c.name, r.Bits, r.Packets, c.wantBits, c.wantPackets)
		}
	}
}

// A NIC whose VF is gone is not counted twice, nor treated as unlimited, until a Snapshot shows the change.
func TestVFThatHasJustGone(t *testing.T) {
	r := newRig(t, 2)
	r.rule(1, model.SLA{Guarantee: gbit(4)})
	r.plug(0, 0)
	r.send(nicOf(0), model.PathVF, 1e9)
	r.follow()
	r.run(time.Second)
	r.left[nicOf(0)] = true
	r.send(nicOf(0), model.PathVF, 0)
	r.send(nicOf(0), model.PathVirtio, 1e9)
	r.fail = func(l model.Limit) error {
		if l.Path == model.PathVF {
			return errors.New("it has no VF")
		}
		return nil
	}
	r.rule(0, model.SLA{Limit: gbit(3)}) // so that there is something to apply
	r.follow()
	for range 5 {
		r.tick()
		n, alloc := r.nic(0), r.c.link("pf0").alloc.(*tenth)
		if n.sent.Bits > 1.01e9 || n.unlimited() || alloc.link.Speed != 10e9 {
			t.Errorf("sends %v bits/s, unlimited %v, of %v are shared", n.sent.Bits, n.unlimited(), alloc.link.Speed)
		}
	}
}

// A limit set in the guest for its VF also applies on virtio: it is lifted once the VF is gone, not when its lease ends.
func TestLimitInGuestGoesWithTheVF(t *testing.T) {
	r := newRig(t, 2)
	r.named["vf tx"] = "guest-htb"
	r.rule(1, model.SLA{Guarantee: gbit(4)})
	r.plug(0, 0)
	r.send(nicOf(0), model.PathVF, 5e9)
	r.follow()
	r.run(time.Second)
	if l := r.stand[key(0, model.PathVF, model.Tx)]; l.Bits != 1e9 {
		t.Fatalf("on its VF: %+v", l)
	}
	r.vm(0).NICs[0].VF, r.vm(0).NICs[0].VFOwner = model.NoVF, ""
	r.follow()
	r.run(time.Second)
	if l, stands := r.stand[key(0, model.PathVF, model.Tx)]; stands {
		t.Errorf("without VF: %+v", l)
	}
}

// A limit set in the guest for a VF that is not there yet, or has just gone, is raised when the NIC may send more: it also applies
// on virtio.
func TestLimitInGuestIsRaisedWithoutTheVF(t *testing.T) {
	r := newRig(t, 2)
	r.named["vf tx"] = "guest-htb"
	r.rule(1, model.SLA{Guarantee: gbit(4)})
	r.follow()
	r.run(time.Second)
	r.c.Expect(nicOf(0))
	r.run(time.Second)
	if l := r.stand[key(0, model.PathVF, model.Tx)]; l.Bits != 1e9 {
		t.Fatalf("before its VF: %+v", l)
	}
	r.run(5 * time.Second) // no VF comes
	r.rule(0, model.SLA{Guarantee: gbit(3)})
	r.follow()
	r.run(time.Second)
	if l, stands := r.stand[key(0, model.PathVF, model.Tx)]; stands && l.Bits < 3e9 {
		t.Errorf("promised 3 Gbit/s: %+v", l)
	}
}

// A NIC that is no longer counted may send what it is promised or a fair share, never the whole link.
func TestUnknownSenderIsNotUnlimited(t *testing.T) {
	r := newRig(t, 2)
	r.rule(0, model.SLA{Guarantee: gbit(4)})
	r.follow()
	r.run(time.Second)
	r.dead[nicOf(1)] = true
	r.run(5 * time.Second)
	f := r.c.links[0].alloc.(*tenth)
	if s := f.senders[1]; s.Bits != 1e9 || !s.Known {
		t.Errorf("the Allocator sees %+v, want one that sends all it may", s)
	}
	if n := r.c.View().NICs[1]; n.Code != model.BandwidthUnknown || n.Allowed.Bits != 1e9 {
		t.Errorf("%+v", n)
	}
}

// Taps that share a tree are one sender, and the tree's root is limited to what they get together.
func TestTapsOfATreeAreOneSender(t *testing.T) {
	r := newRig(t, 4)
	r.named["virtio tx"] = "htb"
	r.rule(0, model.SLA{Guarantee: gbit(2)})
	r.rule(1, model.SLA{Guarantee: gbit(1), Limit: gbit(3)})
	r.plug(3, 0)
	r.follow()
	for i := range 3 {
		r.send(nicOf(i), model.PathVirtio, 1e9)
	}
	r.run(2 * time.Second)
	f := r.c.links[0].alloc.(*tenth)
	if len(f.senders) != 2 || f.senders[0].ID != (model.NICID{NIC: "pf0"}) || f.senders[0].SLA.Guarantee != gbit(3) ||
		f.senders[0].SLA.Weight != 3 || f.senders[0].SLA.Limit.Bits != 0 {
		t.Fatalf("senders %+v", f.senders)
	}
	if b := f.senders[0].Bits; b < 2.9e9 || b > 3.1e9 {
		t.Errorf("the group sends %g", b)
	}
	if l := r.stand[model.LimitKey{PF: "pf0", Path: model.PathVirtio, Dir: model.Tx}]; l.Bits != 3e9 {
		t.Errorf("root %+v, want 3 Gbit/s", l)
	}
	if l := r.stand[key(1, model.PathVirtio, model.Tx)]; l.Guarantee != 1e9 || l.Contract != gbit(3) || l.Bits != 0 {
		t.Errorf("class of vm1: %+v", l)
	}
	// While being moved to a VF it is a sender of its own, and its VF starts with its present rate.
	if rate, _ := r.c.Plug(nicOf(0)); rate.Bits < 2e9 || rate.Bits > 4e9 {
		t.Errorf("plug of vm0 at %d", rate)
	}
	r.world.Active = []model.MoveStatus{{Move: model.Move{Kind: model.MovePlug, VM: vm(0), NIC: "n0"}}}
	r.follow()
	r.tick()
	if len(f.senders) != 3 {
		t.Errorf("senders during the plug: %+v", f.senders)
	}
}

// Asking what plugs wait for changes nothing: taps whose plugs wait stay in the tree, as does one whose guest is limited before its
// plug begins.
func TestAskingChangesNothing(t *testing.T) {
	run := func(by string, ask bool) (batches []string) {
		r := newRig(t, 4)
		r.named["virtio tx"], r.named["vf tx"] = "htb", by
		r.rule(0, model.SLA{Guarantee: gbit(2)})
		r.follow()
		for k := range 4 {
			r.send(nicOf(k), model.PathVirtio, 1e9)
		}
		for k := range 150 { // 30 s
			if k%5 == 0 {
				for i := range 4 {
					if !ask {
						continue
					}
					if _, wait := r.c.Plug(nicOf(i)); k > 0 && (wait != "") != (by == "guest-htb") {
						t.Fatalf("%s: the plug waits: %q", by, wait)
					}
				}
				r.follow()
			}
			batches = append(batches, fmt.Sprint(r.tick()))
			if root := r.stand[model.LimitKey{PF: "pf0", Path: model.PathVirtio, Dir: model.Tx}]; root.Bits == 0 {
				t.Fatalf("%s: no tree at %s: %+v", by, r.now.Sub(t0), root)
			}
		}
		return batches
	}
	for _, by := range []string{"max_tx_rate", "guest-htb"} {
		if asked, not := run(by, true), run(by, false); !slices.Equal(asked, not) {
			t.Errorf("%s: what is applied depends on whether anybody asks", by)
		}
	}
}

// A NIC whose plug is next stays in its tree until the plug begins, and its guest is limited to what it may send outside the tree.
func TestGuestIsLimitedBeforeItsPlug(t *testing.T) {
	r := newRig(t, 3)
	r.named["virtio tx"], r.named["vf tx"] = "htb", "guest-htb"
	r.rule(0, model.SLA{Guarantee: gbit(2)})
	r.follow()
	r.run(time.Second)
	waited := 0
	for {
		r.c.Expect(nicOf(1))
		r.follow()
		if _, wait := r.c.Plug(nicOf(1)); wait == "" {
			break
		}
		r.tick()
		if waited++; waited > 3 {
			t.Fatalf("the plug waits still: %+v", r.stand)
		}
	}
	if l := r.stand[key(1, model.PathVF, model.Tx)]; l.Bits == 0 || l.Bits > 8e9 {
		t.Errorf("before its plug the guest is held to %+v", l)
	}
	if !r.nic(1).shared || waited == 0 {
		t.Errorf("in the tree: %v; waited for %d ticks", r.nic(1).shared, waited)
	}
}

// If a tap of a tree floods the host with small packets, the others still get their promised packets.
func TestFloodAmongTapsOfATree(t *testing.T) {
	const carries, promised, small = 800e3, 200e3, 8 * (64 + wireBytes)
	r := newRig(t, 3)
	if err := r.c.SetOptions(Options{Mode: model.ModeEnforce, Allocator: "waterfill", Period: period, Packets: carries}); err != nil {
		t.Fatal(err)
	}
	r.named["virtio tx"] = "htb"
	r.rule(0, model.SLA{Guarantee: model.Rate{Packets: promised}})
	r.follow()
	send := func(i int, packets float64) {
		r.rates[nicOf(i)] = [2]model.Rate{{Bits: uint64(small * packets), Packets: uint64(packets)}}
	}
	passes := func(i int) float64 { // the policer
		p := float64(r.rates[nicOf(i)][0].Packets)
		if l := r.stand[key(i, model.PathVirtio, model.Tx)]; l.Packets > 0 {
			p = min(p, float64(l.Packets))
		}
		return p
	}
	check := func(when string) {
		t.Helper()
		sum := passes(0) + passes(1) + passes(2)
		if got := passes(0) / max(1, sum/carries); got < 0.98*min(promised, float64(r.rates[nicOf(0)][0].Packets)) {
			t.Errorf("%s: %.0f of %.0f packets/s that are promised get through, %.0f of all", when, got, promised, sum)
		}
		for i := range 3 {
			if l := r.stand[key(i, model.PathVirtio, model.Tx)]; l.Bits != 0 {
				t.Errorf("%s: the tree shares bits, and vm%d is limited to %d bit/s", when, i, l.Bits)
			}
		}
	}
	send(0, 150e3)
	send(2, 50e3)
	r.run(2 * time.Second)
	if l := r.stand[key(2, model.PathVirtio, model.Tx)]; l.Packets > 0 {
		t.Errorf("with packets to spare: %+v", l)
	}
	send(1, 3e6)
	r.run(2 * period)
	for range 50 {
		r.tick()
		check("flood")
		if got := passes(1); got > 0.8*carries || got < 0.5*carries {
			t.Errorf("the flood has %.0f packets/s", got)
		}
	}
	send(0, 0) // and comes back
	r.run(5 * time.Second)
	send(0, promised)
	r.run(2 * period)
	check("after a pause")
	send(1, 0)
	r.run(2 * time.Second)
	for i := range 3 {
		if l := r.stand[key(i, model.PathVirtio, model.Tx)]; l.Packets > 0 {
			t.Errorf("after the flood: %+v", l)
		}
	}
}

// A limit that could not be applied is retried later; until then its NIC counts as unlimited.
func TestFailedLimitRests(t *testing.T) {
	r := newRig(t, 2)
	r.rule(0, model.SLA{Guarantee: gbit(4)})
	r.follow()
	r.send(nicOf(1), model.PathVirtio, 3e9)
	tries := 0
	r.fail = func(l model.Limit) error {
		if l.VM == vm(1) {
			if tries++; l.Bits == 0 {
				t.Errorf("tried to lift: %+v", l)
			}
			return errors.New("no such tap")
		}
		return nil
	}
	r.run(20 * time.Second)
	if tries != 1 {
		t.Errorf("%d tries in 20 s", tries)
	}
	if f := r.c.links[0].alloc.(*tenth); len(f.senders) != 1 || f.link.Speed > 7.1e9 || f.link.Speed < 6.9e9 {
		t.Errorf("shares %+v among %+v", f.link, f.senders)
	}
	if n := r.c.View().NICs[1]; n.Code != model.BandwidthNotEnforced || len(n.Enforcer) != 1 || n.Enforcer[0].Error != "no such tap" {
		t.Errorf("%+v", n)
	}
	r.run(20 * time.Second)
	if tries != 2 {
		t.Errorf("%d tries in 40 s", tries)
	}
}

// A NIC that is squeezed by an unlimited sender is short for as long as that lasts, and no longer.
func TestShortWhileUncontrolled(t *testing.T) {
	r := newRig(t, 2)
	r.rule(0, model.SLA{Guarantee: gbit(4)})
	r.follow()
	r.fail = func(l model.Limit) error {
		if l.VM == vm(1) {
			return errors.New("no such tap")
		}
		return nil
	}
	r.send(nicOf(0), model.PathVirtio, 4e9)
	r.run(2 * time.Second)
	r.send(nicOf(0), model.PathVirtio, 1e9)
	r.send(nicOf(1), model.PathVirtio, 9e9)
	r.run(2 * time.Minute)
	if n := r.c.View().NICs[0]; n.Short < 2.9e9 || n.ShortFor < 100*time.Second {
		t.Errorf("beside 9 of 10 Gbit/s for two minutes: short of %d for %s", n.Short, n.ShortFor)
	}
	r.send(nicOf(1), model.PathVirtio, 1e9)
	r.run(time.Second)
	if n := r.c.View().NICs[0]; n.Short > 0 {
		t.Errorf("beside 1 of 10 Gbit/s: short of %d", n.Short)
	}
	r.send(nicOf(1), model.PathVirtio, 9e9)
	r.run(time.Second)
	r.fail = nil // it can be limited again
	r.send(nicOf(1), model.PathVirtio, 9e9)
	r.run(time.Minute)
	if n := r.c.View().NICs[0]; n.Short > 0 {
		t.Errorf("beside others that can be limited, who wants 1 Gbit/s is short of %d", n.Short)
	}
}

// The lowest rate is only a small part of a slow link.
func TestLeastRate(t *testing.T) {
	for _, c := range []struct{ speed, want uint64 }{{1e6, 100_000}, {2e6, 200_000}, {400e3, 64_000}, {5e6, 500_000}, {10e9, 1e9}} {
		r := newRig(t, 2)
		r.world.Snapshot.PFs[0].Speed = c.speed
		r.rule(0, model.SLA{Guarantee: model.Rate{Bits: c.speed / 2}})
		r.follow()
		r.tick()
		if l := r.stand[key(1, model.PathVirtio, model.Tx)]; l.Bits != c.want {
			t.Errorf("link of %d: limited to %d, want %d", c.speed, l.Bits, c.want)
		}
	}
	for _, c := range []struct{ speed, want uint64 }{{0, 1e6}, {8e6, 64_000}, {100e6, 500_000}, {200e6, 1e6}, {40e9, 1e6}} {
		if got := (&nic{link: &uplink{speed: c.speed}}).least(); got != c.want {
			t.Errorf("link of %d: at least %d, want %d", c.speed, got, c.want)
		}
	}
}

// The Snapshot shows which limit a VF has: that of an earlier run is lifted, one that somebody removed is set again.
func TestVFRatesAreReadBack(t *testing.T) {
	r := newRig(t, 2)
	r.plug(1, 0)
	vf := &r.world.Snapshot.PFs[0].VFs[0]
	vf.MaxTxRate = 5e9
	r.follow()
	if b := r.tick(); len(b) != 1 || b[0].LimitKey != key(1, model.PathVF, model.Tx) || !b[0].Lifts() {
		t.Errorf("%+v, want what nobody wants lifted", b)
	}
	vf.MaxTxRate = 0
	r.rule(1, model.SLA{Limit: gbit(2)})
	r.follow()
	r.tick()
	vf.MaxTxRate = 2e9
	r.follow()
	if b := r.tick(); len(b) > 0 {
		t.Errorf("it stands, and %+v is applied", b)
	}
	vf.MaxTxRate = 0
	r.now = r.now.Add(time.Second)
	r.follow()
	if b := r.tick(); len(b) != 1 || b[0].Contract != gbit(2) {
		t.Errorf("somebody took it off, and %+v is applied", b)
	}
}

// A VF's rate is in bits/s only, so packets/s are converted; a guest limits both.
func TestPacketsOnVFs(t *testing.T) {
	for by, want := range map[string]model.Rate{"max_tx_rate": {Bits: smallest * 5000, Packets: 5000}, "guest-htb": {Packets: 5000}} {
		r := newRig(t, 1)
		r.named["vf tx"] = by
		r.rule(0, model.SLA{Limit: model.Rate{Packets: 5000}})
		r.plug(0, 0)
		r.follow()
		r.tick()
		if got := r.stand[key(0, model.PathVF, model.Tx)].Contract; got != want {
			t.Errorf("%s: contract %v, want %v", by, got, want)
		}
		if _, wait := r.c.Plug(nicOf(0)); wait != "" {
			t.Errorf("%s: a plug waits though the limit stands: %s", by, wait)
		}
	}
}

// Where a limit in packets/s holds at representors, it is set there as it is, from the plug on, and again when somebody removed it.
func TestPacketsAtRepresentors(t *testing.T) {
	r := newRig(t, 1)
	pf := &r.world.Snapshot.PFs[0]
	pf.Caps.VFPackets = model.Yes
	r.rule(0, model.SLA{Limit: model.Rate{Bits: 2e9, Packets: 5000}})
	tick := func() []Order {
		return slices.DeleteFunc(slices.Clone(r.tick()), func(o Order) bool { return o.Path != model.PathVF })
	}
	r.follow()
	if got, wait := r.c.Plug(nicOf(0)); got != (model.Rate{Bits: 2e9, Packets: 5000}) || wait != "" {
		t.Errorf("a plug sets %v, waits for %q", got, wait)
	}
	r.plug(0, 0)
	pf.VFs[0].MaxTxRate, pf.VFs[0].MaxPackets = 2e9, 5000 // as the plug has set it
	r.follow()
	r.tick()
	want := model.Rate{Bits: 2e9, Packets: 5000}
	if got := r.stand[key(0, model.PathVF, model.Tx)].Contract; got != want {
		t.Fatalf("contract %v, want %v", got, want)
	}
	for range 3 {
		r.now = r.now.Add(time.Minute)
		r.follow()
		if b := tick(); len(b) > 0 {
			t.Fatalf("applied again: %+v", b)
		}
	}
	for _, shown := range []uint64{0, 6000} {
		pf.VFs[0].MaxPackets = shown
		r.now = r.now.Add(time.Second)
		r.follow()
		if b := tick(); len(b) != 1 || b[0].Contract != want {
			t.Errorf("%d packets/s are in force, and %+v is applied", shown, b)
		}
		pf.VFs[0].MaxPackets = 5000
		r.now = r.now.Add(time.Second)
		r.follow()
		r.tick()
	}
	r.world.Rules.VMs = nil
	r.follow()
	if b := tick(); len(b) != 1 || !b[0].Lifts() {
		t.Errorf("without the SLA %+v is applied", b)
	}
	if b := r.c.Lift(true); len(b) > 0 && b[0].Tightest().Packets != 0 {
		t.Errorf("lifted: %+v", b)
	}
}

// What somebody else makes of a VF's rates, its guarantee among them, is seen and undone, and reported if it happens again and again. Sluice
// then waits longer each time instead of undoing it in a loop.
func TestRatesThatOthersSet(t *testing.T) {
	for name, spoil := range map[string]func(*model.VF){
		"a limit":     func(vf *model.VF) { vf.MaxTxRate = 7e9 },
		"a guarantee": func(vf *model.VF) { vf.MinTxRate = 0 },
	} {
		r := newRig(t, 1)
		pf := &r.world.Snapshot.PFs[0]
		pf.Caps.MinTxRate = model.Yes
		r.rule(0, model.SLA{Limit: model.Rate{Bits: 2e9}, Guarantee: model.Rate{Bits: 1e9}})
		r.follow()
		r.plug(0, 0)
		var last Order
		own := func() {
			pf.VFs[0].MaxTxRate, pf.VFs[0].MinTxRate = model.WholeMbit(last.Tightest().Bits), last.Guarantee
		}
		applied := func() bool {
			for _, o := range r.tick() {
				if o.Path == model.PathVF && o.Dir == model.Tx {
					last = o
					return true
				}
			}
			return false
		}
		second := func() bool {
			r.now = r.now.Add(time.Second)
			r.follow()
			return applied()
		}
		for range 3 { // the plug, and what follows it
			if second() {
				own()
			}
		}
		if second() {
			t.Errorf("%s: applied although nothing has changed", name)
		}
		spoil(&pf.VFs[0])
		if !second() {
			t.Errorf("%s: not applied again when somebody changed it", name)
		}
		own()
		second()
		if p := r.c.View().Problems; len(p) > 0 {
			t.Errorf("%s: reported after one change: %+v", name, p)
		}
		undone, longest, since := 0, time.Duration(0), r.now
		for range 600 { // somebody sets it again within a second, for ten minutes
			spoil(&pf.VFs[0])
			if second() {
				undone++
				longest = max(longest, r.now.Sub(since))
				own()
				second()
				since = r.now
			}
		}
		longest = max(longest, r.now.Sub(since))   // of the outage that has not ended
		if longest > 2*time.Minute+2*time.Second { // as docs/sla.md says, and the next sample
			t.Errorf("%s: off for %s", name, longest)
		}
		if undone < 3 || undone > 12 {
			t.Errorf("%s: undone %d times in ten minutes", name, undone)
		}
		if p := r.c.View().Problems; !slices.ContainsFunc(p, func(p model.Problem) bool { return strings.Contains(p.Text, "somebody else has set") }) {
			t.Errorf("%s: not reported: %+v", name, p)
		}
		r.world.Rules.VMs = nil
		if r.rule(0, model.SLA{Limit: model.Rate{Bits: 5e8}}); !second() {
			t.Errorf("%s: another limit waits", name)
		}
	}
}

// Drivers refuse a maximum above the speed of their link; a limit in the guest may be any.
func TestLimitAboveTheLinkOnVFs(t *testing.T) {
	for by, want := range map[string]model.Rate{"max_tx_rate": gbit(10), "guest-htb": gbit(40)} {
		r := newRig(t, 1)
		r.named["vf tx"] = by
		r.rule(0, model.SLA{Limit: gbit(40)})
		r.plug(0, 0)
		r.follow()
		r.tick()
		if got := r.stand[key(0, model.PathVF, model.Tx)].Contract; got != want {
			t.Errorf("%s: contract %v, want %v", by, got, want)
		}
		if rate, wait := r.c.Plug(nicOf(0)); wait != "" || by == "max_tx_rate" && rate.Bits != 10e9 {
			t.Errorf("%s: a plug sets %v, waits for %q", by, rate, wait)
		}
		pf := &r.world.Snapshot.PFs[0]
		pf.LinkUp, pf.Speed = false, 0
		r.follow()
		if b := r.tick(); len(b) > 0 && by == "max_tx_rate" {
			t.Errorf("applied again when the link is down: %+v", b)
		}
	}
}

// A limit in the guest also applies on virtio: it is lifted with the VF.
func TestGuestLimitGoesWithTheVF(t *testing.T) {
	r := newRig(t, 1)
	r.named["vf tx"] = "guest-htb"
	r.rule(0, model.SLA{Limit: gbit(2)})
	r.plug(0, 0)
	r.follow()
	r.tick()
	r.c.Expect(nicOf(0)) // it got its VF only just now
	r.tick()
	if r.stand[key(0, model.PathVF, model.Tx)].Contract != gbit(2) {
		t.Fatalf("on the VF: %+v", r.stand)
	}
	r.vm(0).NICs[0].VF, r.vm(0).NICs[0].VFOwner = model.NoVF, ""
	r.world.Snapshot.PFs[0].VFs[0] = model.VF{ID: model.VFID{PF: "pf0"}}
	r.follow()
	r.tick()
	if _, ok := r.stand[key(0, model.PathVF, model.Tx)]; ok || r.stand[key(0, model.PathVirtio, model.Tx)].Contract != gbit(2) {
		t.Errorf("on virtio: %+v", r.stand)
	}
	if b := r.tick(); len(b) > 0 {
		t.Errorf("lifted again: %+v", b)
	}
	r.c.Adopt(r.now, []model.Limit{{LimitKey: key(0, model.PathVF, model.Tx), Contract: gbit(1)}}) // an earlier run left it
	if b := r.tick(); len(b) != 1 || !b[0].Lifts() {
		t.Errorf("what an earlier run left: %+v", b)
	}
}

func TestLift(t *testing.T) {
	r := newRig(t, 3)
	r.rule(0, model.SLA{Guarantee: gbit(4), Limit: gbit(6)})
	r.plug(1, 0)
	r.follow()
	r.run(time.Second)
	r.apply(r.c.Lift(false))
	if len(r.stand) != 1 || r.stand[key(0, model.PathVirtio, model.Tx)].Contract != gbit(6) ||
		!r.stand[key(0, model.PathVirtio, model.Tx)].IsZero() {
		t.Errorf("after a stop stand %+v, want vm0's contract only", r.stand)
	}
	r.apply(r.c.Lift(true))
	if len(r.stand) > 0 {
		t.Errorf("after lifting all stand %+v", r.stand)
	}
}

func TestObserveModeSetsNothing(t *testing.T) {
	r := newRig(t, 2)
	r.rule(0, model.SLA{Guarantee: gbit(4)})
	if err := r.c.SetOptions(Options{Mode: model.ModeObserve, Allocator: "tenth", Period: period}); err != nil {
		t.Fatal(err)
	}
	r.follow()
	r.run(5 * time.Second)
	if len(r.stand) > 0 || len(r.c.Lift(true)) > 0 {
		t.Errorf("%+v", r.stand)
	}
	if n := r.c.View().NICs[1]; n.Allowed.Bits != 1e9 {
		t.Errorf("would allow %+v", n)
	}
}

// In observe mode, a NIC that is short shows what it would send: it gets what others send above their allowances, up to its promise.
func TestObserveModeSaysWhatItWouldGive(t *testing.T) {
	for _, test := range []struct{ other, would float64 }{
		{9e9, 4e9},   // 8 Gbit/s are to spare, and it lacks 3
		{2e9, 2e9},   // 1 is, and it sends 1
		{0.9e9, 1e9}, // nothing is
	} {
		r := newRig(t, 3)
		r.rule(0, model.SLA{Guarantee: gbit(4)})
		if err := r.c.SetOptions(Options{Mode: model.ModeObserve, Allocator: "tenth", Period: period}); err != nil {
			t.Fatal(err)
		}
		r.follow()
		r.send(nicOf(0), model.PathVirtio, 4e9)
		r.run(2 * time.Second)
		if n := r.c.View().NICs[0]; n.WouldSend != 0 {
			t.Errorf("is not short, but would send %d", n.WouldSend)
		}
		r.send(nicOf(0), model.PathVirtio, 1e9)
		r.send(nicOf(1), model.PathVirtio, test.other)
		r.port = 9.9e9 // the link is full, whoever else fills it
		r.tick()
		r.tick()
		n := r.c.View().NICs[0]
		if math.Abs(float64(n.WouldSend)-test.would) > 0.05*test.would ||
			!strings.Contains(n.Why, "; in enforce mode it would send about "+bits(float64(n.WouldSend))) {
			t.Errorf("beside %.1f Gbit/s: would send %d, want %.0f; %s", test.other/1e9, n.WouldSend, test.would, n.Why)
		}
	}
}

// Two PFs have separate budgets.
func TestPFsHaveBudgetsOfTheirOwn(t *testing.T) {
	r := newRig(t, 2)
	s := r.world.Snapshot
	s.PFs = append(s.PFs, model.PF{Name: "pf1", Network: "br1", LinkUp: true, Speed: 1e9})
	r.vm(1).NICs[0].Network = "br1"
	r.rule(0, model.SLA{Guarantee: gbit(4)})
	r.rule(1, model.SLA{Guarantee: model.Rate{Bits: 3e8}})
	r.follow()
	r.run(time.Second)
	v := r.c.View()
	if len(v.Links) != 2 || v.Links[0].Guaranteed != gbit(4) || v.Links[1].Guaranteed.Bits != 3e8 || v.Links[1].Capacity != 1e9 {
		t.Errorf("%+v", v.Links)
	}
	if r.stand[key(1, model.PathVirtio, model.Tx)].Bits != 3e8 {
		t.Errorf("%+v", r.stand)
	}
}

func BenchmarkTick(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newRig(b, n)
			r.c.opts.Allocator = "none"
			for i := range 8 {
				r.rule(i, model.SLA{Guarantee: model.Rate{Bits: 1e8}})
			}
			r.follow()
			r.run(time.Second)
			read := make([]Reading, 0, n)
			for i := range n {
				read = append(read, r.count[nicOf(i)][0])
			}
			b.ReportAllocs()
			for b.Loop() {
				r.now = r.now.Add(period)
				for i := range read {
					read[i].At = r.now
					read[i].TxBytes += 1e5
				}
				r.c.Tick(r.now, read)
			}
		})
	}
}

// A NIC that cannot be limited still gets what it is promised, since the others can be limited.
func TestGuaranteeOfANICThatNothingLimits(t *testing.T) {
	r := newRig(t, 2)
	r.useAllocator("waterfill")
	r.rule(0, model.SLA{Guarantee: gbit(4)})
	r.fail = func(l model.Limit) error {
		if l.VM == vm(0) {
			return errors.New("no")
		}
		return nil
	}
	r.follow()
	for range 50 {
		other := min(9*giga, r.nic(1).allow.Bits)
		r.send(nicOf(1), model.PathVirtio, other)
		r.send(nicOf(0), model.PathVirtio, min(5*giga, 10*giga-other))
		r.tick()
	}
	if !r.nic(0).unlimited() {
		t.Fatal("vm0 is limited: this shows nothing")
	}
	if got := r.nic(1).allow.Bits; got > 6*giga {
		t.Errorf("the other is allowed %s of 10 Gbit/s, of which 4 are promised", bits(got))
	}
}

// A guarantee reduced only by its own limit needs no link for its explanation.
func TestGuaranteeAboveItsLimitWithoutALink(t *testing.T) {
	r := newRig(t, 1)
	r.world.Snapshot.PFs = nil
	r.rule(0, model.SLA{Guarantee: gbit(4), Limit: gbit(2)})
	r.follow()
	r.send(nicOf(0), model.PathVirtio, 2e9)
	r.run(time.Second)
	if n := r.c.View().NICs[0]; n.Code != model.BandwidthLimit {
		t.Errorf("%s: %s", n.Code, n.Why)
	}
}
