package loop

import (
	"errors"
	"slices"
	"testing"
	"time"

	"sluice/internal/model"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// memJournal is a Journal that can be made to fail.
type memJournal struct {
	begun int
	asked int
	err   error
}

func (j *memJournal) Begin(model.Move) error {
	j.asked++
	if j.err == nil {
		j.begun++
	}
	return j.err
}
func (j *memJournal) End(model.Move) error { return nil }

// hand drives a Core step by step on two VMs, a and b, with as many VFs as vfs says (2 by default).
type hand struct {
	*Core
	book *memJournal
	t    *testing.T
	now  time.Time
	has  map[model.VMID]int // the VF each VM has, if any
	vfs  int
	edit func(*model.Snapshot)
}

func newHand(t *testing.T, o Options) *hand {
	t.Helper()
	o.Mode, o.Timeouts = model.ModeEnforce, DefaultOptions.Timeouts
	j := &memJournal{}
	c, err := NewCore(model.Rules{Policy: "activity", Interval: time.Hour}, o, j, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &hand{Core: c, book: j, t: t, now: noon, has: map[model.VMID]int{}, vfs: 2, edit: func(*model.Snapshot) {}}
}

// tick advances the time by a second and takes a Snapshot of the state.
func (h *hand) tick() []model.Step {
	h.now = h.now.Add(time.Second)
	s := &model.Snapshot{Time: h.now, Read: h.now, PFs: []model.PF{{Name: "pf0", Network: "br0", Managed: true, LinkUp: true, NumVFs: h.vfs}}}
	for i := range h.vfs {
		s.PFs[0].VFs = append(s.PFs[0].VFs, model.VF{
			ID: model.VFID{PF: "pf0", Index: i}, Address: model.PCIAddress(rune('0' + i)),
			Owner: model.OwnerFree,
		})
	}
	for i, id := range []model.VMID{"a", "b"} {
		n := model.NIC{
			Alias: "ua-0", MAC: model.MAC{byte(i + 1)}, Network: "br0", Tap: "tap" + string(id), Failover: model.FailoverTeaming,
			Route: "tap" + string(id),
		}
		n.Virtio = model.Traffic{Known: true}
		if k, ok := h.has[id]; ok {
			vf := &s.PFs[0].VFs[k]
			vf.Owner, vf.Holder, vf.MAC, vf.InGuest = model.OwnerSluice, id, n.MAC, model.Yes
			n.VF, n.VFOwner, n.Route = vf.ID, model.OwnerSluice, "pf0"
			n.VFPath = model.Traffic{Known: true}
		} else {
			s.PFs[0].SelfFDB = append(s.PFs[0].SelfFDB, n.MAC)
		}
		s.VMs = append(s.VMs, model.VM{ID: id, Name: string(id), State: model.VMRunning, NICs: []model.NIC{n}})
	}
	h.edit(s)
	return h.Tick(h.now, s)
}

// do runs Steps until none is left; result returns how each ends. It returns their kinds in order.
func (h *hand) do(steps []model.Step, result func(model.Step) error) (did []string) {
	for len(steps) > 0 {
		s := steps[0]
		err := result(s)
		did = append(did, string(s.Kind)+" "+string(s.Subject.VM))
		if err == nil {
			switch s.Kind {
			case model.StepAttach:
				h.has[s.Subject.VM] = s.Device.VF.Index
			case model.StepWaitGone:
				delete(h.has, s.Subject.VM)
			}
		}
		h.now = h.now.Add(time.Millisecond)
		steps = append(steps[1:], h.Finish(h.now, s.ID, err)...)
		if len(steps) == 0 && !h.Wake().IsZero() {
			h.now = h.Wake()
			steps = h.Timer(h.now)
		}
	}
	return did
}

func works(model.Step) error { return nil }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// deaf makes the bridge send b's frames to the PF though b is on virtio.
func deaf(s *model.Snapshot) { s.VMs[1].NICs[0].Route = "pf0" }

func TestRepairWaitsForNobody(t *testing.T) {
	h := newHand(t, Options{Parallel: 1})
	h.vfs = 1
	steps := h.tick()
	if len(steps) != 1 || steps[0].Subject.VM != "a" {
		t.Fatalf("first steps %v, want a's plug", steps)
	}
	h.edit = deaf
	repair := h.tick() // a's plug of VF 0 continues and uses the only slot for moves
	if len(repair) != 1 || repair[0].Kind != model.StepRouteToTap || repair[0].Subject.VM != "b" {
		t.Errorf("b is cut off while a moves; steps begun: %v", repair)
	}
}

func TestRepairComesAgainAtOnceWhenTheFaultDoes(t *testing.T) {
	h := newHand(t, Options{Parallel: 4})
	h.has = map[model.VMID]int{"a": 0}
	h.vfs = 1
	h.edit = deaf
	for range 2 {
		if did := h.do(h.tick(), works); len(did) == 0 || did[0] != "route-to-tap b" {
			t.Fatalf("steps %v, want a repair of b", did)
		}
		h.edit = func(*model.Snapshot) {}
		h.tick()
		h.edit = deaf
	}
}

func TestRepairKeepsBackoff(t *testing.T) {
	h := newHand(t, Options{Parallel: 4, Backoff: time.Hour, BackoffMax: time.Hour})
	h.vfs = 1
	h.do(h.tick(), func(s model.Step) error {
		if s.Kind == model.StepAttach {
			return model.ErrPermanent
		}
		return nil
	})
	h.tick()
	h.edit = func(s *model.Snapshot) { s.VMs[0].NICs[0].Route = "pf0" }
	h.do(h.tick(), works) // repairs a, whose plug failed
	h.edit = func(*model.Snapshot) {}
	h.tick()
	if r := h.View().Target.Reasons[0]; r.Code != model.CodeBackoff {
		t.Errorf("after its repair a is %s, want it to rest still", r)
	}
}

func TestMoveThatWorkedAfterARetryIsNoFailure(t *testing.T) {
	h := newHand(t, Options{Parallel: 1, Retries: 2, RetryDelay: time.Second})
	failed := false
	h.do(h.tick(), func(s model.Step) error {
		if s.Kind == model.StepAttach && !failed {
			failed = true
			return errors.New("busy")
		}
		return nil
	})
	for _, m := range h.Ended() {
		if m.Error != "" {
			t.Errorf("%s of %s counts as failed: %s", m.Move.Kind, m.Move.VM, m.Error)
		}
	}
	if !failed || h.View().Totals.Plugs != 2 {
		t.Errorf("totals %+v", h.View().Totals)
	}
}

// A published View keeps showing a move as it was at that time.
func TestViewsKeepTheTimesOfSteps(t *testing.T) {
	h := newHand(t, Options{Parallel: 1, Retries: 1})
	h.vfs = 1
	s := h.tick()
	v := h.View()
	h.Finish(h.now.Add(time.Second), s[0].ID, nil)
	if m := v.Active[0]; len(m.Times) != 1 || !m.Times[0].To.IsZero() {
		t.Errorf("the View has changed: %+v", m.Times)
	}
	if m := h.View().Active[0]; len(m.Times) < 1 || !m.Times[0].To.Equal(h.now.Add(time.Second)) || m.ID != 1 {
		t.Errorf("the next View shows %+v", m)
	}
}

func TestVMGivesUpOneVFBeforeItGetsAnother(t *testing.T) {
	h := newHand(t, Options{Parallel: 4})
	h.has = map[model.VMID]int{"a": 0, "b": 1}
	h.vfs = 3
	h.edit = func(s *model.Snapshot) { // a's VF is on another PF, whose link is down
		dead := s.PFs[0]
		dead.Name, dead.LinkUp, dead.SelfFDB = "pf1", false, nil
		dead.VFs = []model.VF{s.PFs[0].VFs[0]}
		dead.VFs[0].ID.PF = "pf1"
		s.PFs[0].VFs = s.PFs[0].VFs[1:]
		if dead.VFs[0].Holder == "a" {
			s.VMs[0].NICs[0].VF = dead.VFs[0].ID
		}
		s.PFs = append(s.PFs, dead)
	}
	did := h.do(h.tick(), works)
	want := map[string]int{}
	for i, s := range did {
		want[s] = i
	}
	if gone, ok := want["wait-gone a"]; !ok || want["attach a"] < gone {
		t.Errorf("steps %v: a is plugged before it is unplugged", did)
	}
}

func TestVanishedVMsVFIsCleared(t *testing.T) {
	h := newHand(t, Options{Parallel: 1})
	h.vfs = 1
	did := h.do(h.tick(), func(s model.Step) error {
		switch s.Kind {
		case model.StepWaitGuest:
			return model.ErrGuest
		case model.StepDetach, model.StepWaitGone: // while the plug is undone
			return model.ErrGone
		}
		return nil
	})
	cleared := false
	for _, s := range did {
		cleared = cleared || s == "clear-vf a"
	}
	if !cleared {
		t.Errorf("steps %v: the VF keeps the MAC of a VM that is gone", did)
	}
}

func TestAskedRepairsAreNotForgotten(t *testing.T) {
	h := newHand(t, Options{Parallel: 4})
	h.has = map[model.VMID]int{"a": 0, "b": 1}
	h.vfs = 3
	h.edit = func(s *model.Snapshot) { s.PFs[0].VFs[2].Trust = model.Yes }
	if did := h.do(h.tick(), works); did != nil {
		t.Fatalf("repaired unasked: %v", did)
	}
	h.Repair(h.now)
	if did := h.do(h.tick(), works); len(did) != 1 || did[0] != "clear-vf " {
		t.Errorf("asked, it did %v", did)
	}
	if did := h.do(h.tick(), works); did != nil {
		t.Errorf("asked once, it repairs twice: %v", did)
	}
}

// A VM that vanishes before any Snapshot shows it with its VF leaves that VF configured.
func TestClearsTheVFOfAVMThatWentRightAfterItsPlug(t *testing.T) {
	h := newHand(t, Options{Parallel: 4})
	h.do(h.tick(), works)
	h.edit = func(s *model.Snapshot) {
		s.VMs = s.VMs[1:]
		s.PFs[0].VFs[0].Owner, s.PFs[0].VFs[0].Holder = model.OwnerFree, ""
	}
	if did := h.do(h.tick(), works); len(did) != 1 || did[0] != "clear-vf " {
		t.Errorf("steps %v, want the VF cleared", did)
	}
}

// A guest that does not use its VF loses it, even if no move could start at first.
func TestUnusedVFIsTakenLater(t *testing.T) {
	h := newHand(t, Options{Parallel: 1, Backoff: time.Second, BackoffMax: time.Minute})
	h.has = map[model.VMID]int{"a": 0}
	h.edit = func(s *model.Snapshot) {
		if n := &s.VMs[0].NICs[0]; n.VF != model.NoVF {
			s.PFs[0].VFs[0].InGuest, n.Route = model.No, n.Tap
			s.PFs[0].SelfFDB = append(s.PFs[0].SelfFDB, n.MAC)
		}
	}
	plug := h.tick()
	for range 60 {
		if s := h.tick(); len(s) > 0 {
			t.Fatalf("b's plug takes the only hand; steps begun: %v", s)
		}
	}
	h.do(plug, works)
	for range 60 {
		if slices.Contains(h.do(h.tick(), works), "detach a") {
			return
		}
	}
	t.Error("a keeps the VF that its guest does not use")
}

func TestGuestThatDidNotUseItsVFRests(t *testing.T) {
	h := newHand(t, Options{Parallel: 4, Backoff: time.Hour, BackoffMax: time.Hour})
	h.vfs = 1
	h.has = map[model.VMID]int{"a": 0}
	h.edit = func(s *model.Snapshot) { // a's driver is gone; b wants nothing
		s.PFs[0].VFs[0].InGuest = model.No
		s.VMs[1].State = model.VMStopped
	}
	var did []string
	for range int(3 * DefaultOptions.Timeouts.Guest / time.Second) {
		did = append(did, h.do(h.tick(), works)...)
	}
	plugs := 0
	for _, s := range did {
		if s == "attach a" {
			plugs++
		}
	}
	if _, has := h.has["a"]; has || plugs > 0 {
		t.Errorf("a has it again after %d plugs: %v", plugs, did)
	}
}

// oneAtATime checks that no VM has two moves at once, and no NIC two moves or repairs.
func oneAtATime(t *testing.T, active []model.MoveStatus) {
	t.Helper()
	moves, nics := map[model.VMID]bool{}, map[model.NICID]bool{}
	for _, m := range active {
		if nic := nicOf(m.Move); nics[nic] || m.Move.Kind != model.MoveRepair && moves[nic.VM] {
			t.Fatalf("two at once: %v", active)
		} else {
			nics[nic] = true
		}
		if m.Move.Kind != model.MoveRepair {
			moves[m.Move.VM] = true
		}
	}
}

// The moves of a VM with several NICs run one after the other, each NIC backs off separately after a failure, and each keeps its
// VF while another one moves.
func TestSeveralNICsOfAVM(t *testing.T) {
	h := newHand(t, Options{Parallel: 4, Backoff: time.Hour, BackoffMax: time.Hour})
	held := map[string]int{} // by NIC of a
	h.vfs = 3
	h.edit = func(s *model.Snapshot) {
		a := &s.VMs[0]
		for _, alias := range []string{"ua-1", "ua-2"} {
			n := a.NICs[0]
			n.Alias, n.MAC[5], n.Tap = alias, alias[3], "tap"+alias
			n.Route = n.Tap
			a.NICs = append(a.NICs, n)
		}
		for i := range a.NICs {
			n := &a.NICs[i]
			s.PFs[0].SelfFDB = append(s.PFs[0].SelfFDB, n.MAC)
			if k, ok := held[n.Alias]; ok {
				vf := &s.PFs[0].VFs[k]
				vf.Owner, vf.Holder, vf.MAC, vf.InGuest = model.OwnerSluice, "a", n.MAC, model.Yes
				n.VF, n.VFOwner, n.Route = vf.ID, model.OwnerSluice, "pf0"
				n.VFPath = model.Traffic{Known: true}
			}
		}
		s.VMs = s.VMs[:1]
	}
	ill := errors.New("no such device")
	for range 6 {
		steps := h.tick()
		for len(steps) > 0 {
			s := steps[0]
			var err error
			switch {
			case s.Kind == model.StepAttach && s.Device.NIC == "ua-1":
				err = errors.Join(ill, model.ErrPermanent)
			case s.Kind == model.StepAttach:
				held[s.Device.NIC] = s.Device.VF.Index
			case s.Kind == model.StepWaitGone:
				delete(held, s.Device.NIC)
			}
			oneAtATime(t, h.View().Active)
			h.now = h.now.Add(time.Millisecond)
			if steps = append(steps[1:], h.Finish(h.now, s.ID, err)...); len(steps) == 0 && !h.Wake().IsZero() {
				h.now = h.Wake()
				steps = h.Timer(h.now)
			}
		}
	}
	if len(held) != 2 || held["ua-0"] == held["ua-2"] {
		t.Errorf("the NICs have VFs %v, want one each but for ua-1", held)
	}
	if v := h.View(); v.Totals.Unplugs != 0 || v.Target.NIC(0, "ua-1").Code != model.CodeBackoff ||
		v.Target.NIC(0, "ua-0").Code == model.CodeBackoff {
		t.Errorf("%+v: %v", v.Totals, v.Target.NICs)
	}
	h.Forgive("a")
	if h.tick(); h.View().Target.NIC(0, "ua-1").Code == model.CodeBackoff {
		t.Error("ua-1 rests though its VM was forgiven")
	}
}
