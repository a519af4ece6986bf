package daemon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/control/plan"
	"sluice/internal/model"
)

// incomingRig is a host with two VFs, where the core chooses the given ones.
type incomingRig struct {
	*incoming
	snap   model.Snapshot
	clock  time.Time
	choose []int
	asked  []model.VFID  // VFs that the core was told are kept
	open   chan struct{} // closed when QEMU opens VFs
	done   []string
	fail   model.StepKind
}

func newIncomingRig(t *testing.T) *incomingRig {
	r := &incomingRig{clock: time.Unix(1000, 0), open: make(chan struct{})}
	opened := func(ctx context.Context, _ model.PCIAddress) error {
		select {
		case <-r.open:
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.incoming = newIncoming(ctx, r, r, opened, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { cancel(); r.close() })
	r.now = func() time.Time { return r.clock }
	return r
}

// Snapshot implements runner.Source.
func (r *incomingRig) Snapshot(context.Context) (*model.Snapshot, error) {
	pf := model.PF{Name: "pf0", Managed: true, Network: "br0"}
	for i := range 2 {
		pf.VFs = append(pf.VFs, model.VF{ID: model.VFID{PF: "pf0", Index: i}, Owner: model.OwnerFree})
	}
	r.snap.PFs = []model.PF{pf}
	for i := range r.snap.VMs {
		vf := &r.snap.PFs[0].VFs[r.snap.VMs[i].NICs[0].VF.Index]
		vf.Holder, vf.Owner = r.snap.VMs[i].ID, model.OwnerSluice
	}
	return &r.snap, nil
}

// Do implements runner.Actuator.
func (r *incomingRig) Do(_ context.Context, s model.Step) error {
	if s.Kind == r.fail {
		return errors.New("refused")
	}
	r.done = append(r.done, string(s.Kind)+" "+s.VF.ID.String())
	return nil
}

// Incoming implements incomingCore.
func (r *incomingRig) Incoming(_ model.Subject, _ []model.NIC, kept map[model.VFID]plan.Kept) (out []model.Step, err error) {
	r.asked = nil
	for i := range 2 {
		id := model.VFID{PF: "pf0", Index: i}
		if _, is := kept[id]; is {
			r.asked = append(r.asked, id)
		}
	}
	for _, i := range r.choose {
		vf := model.VFStep{ID: model.VFID{PF: "pf0", Index: i}, Address: "0000:01:10.0", MAC: model.MAC{2}}
		out = append(out, model.Step{Kind: model.StepSetVF, VF: vf, Timeout: time.Second},
			model.Step{Kind: model.StepSetMAC, VF: vf, Timeout: time.Second})
	}
	if len(out) == 0 {
		err = errors.New("no VF is free")
	}
	return out, err
}

func (r *incomingRig) come(t *testing.T) ([]model.VFStep, error) {
	t.Helper()
	call := func(_ context.Context, f func(time.Time)) error { f(r.clock); return nil }
	return r.ready(t.Context(), call, r, model.Subject{VM: "a", VMName: "db-1"}, []model.NIC{{Alias: "ua-net0"}})
}

// owners lists the owners that the VFs show.
func (r *incomingRig) owners(t *testing.T) (out []model.Owner) {
	t.Helper()
	s, err := r.incoming.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, vf := range s.PFs[0].VFs {
		out = append(out, vf.Owner)
	}
	return out
}

func TestIncomingVFIsKeptUntilTheVMIsThere(t *testing.T) {
	r := newIncomingRig(t)
	r.choose = []int{1}
	vfs, err := r.come(t)
	if err != nil || len(vfs) != 1 || vfs[0].ID.Index != 1 {
		t.Fatalf("got %v, %v", vfs, err)
	}
	if want := []string{"set-vf pf0/1"}; !slices.Equal(r.done, want) {
		t.Errorf("done %v before QEMU has the VF, want %v", r.done, want)
	}
	if got := r.owners(t); !slices.Equal(got, []model.Owner{model.OwnerFree, model.OwnerForeign}) {
		t.Errorf("VFs are %v while the VM is on its way", got)
	}
	if s, _ := r.incoming.Snapshot(t.Context()); s.PFs[0].VFs[1].OwnerWhy != "kept for db-1, which migrates here" {
		t.Errorf("why: %q", s.PFs[0].VFs[1].OwnerWhy)
	}
	if _, err := r.come(t); err != nil || len(r.asked) != 1 {
		t.Errorf("the next one was told that %v are kept, %v", r.asked, err)
	}
	r.snap.VMs = []model.VM{{ID: "a", NICs: []model.NIC{{VF: model.VFID{PF: "pf0", Index: 1}}}}}
	if got := r.owners(t); got[1] != model.OwnerSluice {
		t.Errorf("VF is %s when libvirt lists the VM", got[1])
	}
	close(r.open)
	r.wg.Wait()
	if want := []string{"set-vf pf0/1", "set-vf pf0/1", "set-mac pf0/1"}; !slices.Equal(r.done, want) {
		t.Errorf("done %v when QEMU has the VF, want %v", r.done, want)
	}
	r.snap.VMs = nil // the migration failed
	if got := r.owners(t); got[1] != model.OwnerFree {
		t.Errorf("VF is %s when the VM has gone again", got[1])
	}
}

func TestIncomingVFIsFreeAgain(t *testing.T) {
	for name, spoil := range map[string]func(*incomingRig) bool{ // returns whether asking succeeds
		"no VM within the time":   func(*incomingRig) bool { return true },
		"the VF is not to be had": func(r *incomingRig) bool { r.fail = model.StepSetVF; return false },
		"none is free":            func(r *incomingRig) bool { r.choose = nil; return false },
	} {
		r := newIncomingRig(t)
		r.choose = []int{0}
		well := spoil(r)
		if _, err := r.come(t); (err == nil) != well {
			t.Errorf("%s: %v", name, err)
		}
		r.clock = r.clock.Add(loop.IncomingLimit + time.Second)
		if got := r.owners(t); got[0] != model.OwnerFree {
			t.Errorf("%s: VF is %s", name, got[0])
		}
		r.wg.Wait() // nobody waits for QEMU any more
		if slices.ContainsFunc(r.done, func(s string) bool { return strings.HasPrefix(s, "set-mac") }) {
			t.Errorf("%s: done %v", name, r.done)
		}
	}
}

// planCore chooses as the loop does.
type planCore struct{ snap *model.Snapshot }

func (c planCore) Incoming(vm model.Subject, nics []model.NIC, kept map[model.VFID]plan.Kept) ([]model.Step, error) {
	return plan.ForIncoming(c.snap, vm, nics, kept, func(model.VFID) bool { return false }, plan.DefaultTimeouts)
}

// A migration that is retried gets the VF that is kept for it, for another minute; another VM never gets it.
func TestIncomingAgain(t *testing.T) {
	r := newIncomingRig(t)
	call := func(_ context.Context, f func(time.Time)) error { f(r.clock); return nil }
	come := func(vm model.VMID) string {
		snap, err := r.incoming.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		nics := []model.NIC{{Alias: "ua-net0", MAC: model.MAC{2, 8}, Network: "br0"}}
		vfs, err := r.ready(t.Context(), call, planCore{snap}, model.Subject{VM: vm, VMName: string(vm)}, nics)
		if err != nil {
			return err.Error()
		}
		return vfs[0].ID.String()
	}
	for i := range 3 {
		if got := come("a"); got != "pf0/0" {
			t.Errorf("try %d of a: %s", i, got)
		}
		r.clock = r.clock.Add(loop.IncomingLimit - time.Second)
	}
	if got := come("b"); got != "pf0/1" {
		t.Errorf("b: %s", got)
	}
	if got := come("c"); !strings.Contains(got, "no VF is free") {
		t.Errorf("c: %s", got)
	}
	r.clock = r.clock.Add(2 * time.Second) // a's VF is no longer kept
	if got := come("c"); got != "pf0/0" {
		t.Errorf("c later: %s", got)
	}
}

// A kept VF that somebody else uses meanwhile is not given to the VM that it is kept for.
func TestIncomingAgainTaken(t *testing.T) {
	r := newIncomingRig(t)
	r.choose = []int{0}
	if _, err := r.come(t); err != nil {
		t.Fatal(err)
	}
	for _, owner := range []model.Owner{model.OwnerForeign, model.OwnerFree} {
		r.Source = ownedSource{r, owner}
		r.owners(t)
		if got := r.kept[model.VFID{PF: "pf0"}].Free; got != (owner == model.OwnerFree) {
			t.Errorf("%s but for being kept: free %v", owner, got)
		}
	}
}

// ownedSource shows a VF with the given owner.
type ownedSource struct {
	*incomingRig
	owner model.Owner
}

func (s ownedSource) Snapshot(ctx context.Context) (*model.Snapshot, error) {
	snap, err := s.incomingRig.Snapshot(ctx)
	snap.PFs[0].VFs[0].Owner = s.owner
	return snap, err
}
