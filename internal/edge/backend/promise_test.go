package backend

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/server"
	"sluice/internal/model"
)

// hostFor has a VM for each thing that can stand in the way of a pin or release.
func hostFor() *model.Snapshot {
	vf := func(n int) model.VFID { return model.VFID{PF: "pf0", Index: n} }
	s := &model.Snapshot{Time: noon, PFs: []model.PF{{
		Name: "pf0", Network: "br0", Managed: true, LinkUp: true, Uplink: model.Uplink{Kind: "linux-bridge", Switch: "br0"}, VFs: []model.VF{
			{ID: vf(0), Owner: model.OwnerFree},
			{ID: vf(1), Owner: model.OwnerSluice, Holder: "holder"},
			{ID: vf(2), Owner: model.OwnerForeign, Holder: "foreign"},
		},
	}}}
	add := func(name string, has model.VFID, owner model.Owner) *model.VM {
		s.VMs = append(s.VMs, model.VM{ID: model.VMID(name), Name: name, State: model.VMRunning, Ready: model.Yes, NICs: []model.NIC{{
			Alias: "ua-net0", Network: "br0", MAC: model.MAC{0x52, 0x54, 0, 0, 0, byte(len(s.VMs) + 1)}, Failover: model.FailoverTeaming,
			FreePort: model.Yes, LinkUp: model.Yes, VF: has, VFOwner: owner,
			Virtio: model.Traffic{Known: true, Proof: model.ProofKernel}, VFPath: model.Traffic{Known: true, Proof: model.ProofKernel},
		}}})
		return &s.VMs[len(s.VMs)-1]
	}
	add("plain", model.NoVF, "")
	add("holder", vf(1), model.OwnerSluice)
	add("foreign", vf(2), model.OwnerForeign)
	add("unfit", model.NoVF, "").NICs[0].Failover = model.FailoverNone
	add("off", model.NoVF, "").State = model.VMStopped
	add("elsewhere", model.NoVF, "").NICs[0].Network = "br7"
	slices.SortFunc(s.VMs, func(a, b model.VM) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// An answer promises what will happen, and says what prevents what was asked for.
func TestPromises(t *testing.T) {
	for _, c := range []struct {
		verb           api.Verb
		vm, want, stop string // stop is the obstacle
		down           bool
	}{
		{verb: api.VerbPin, vm: "plain", want: "plain is pinned: it gets a VF, and keeps it until `sluice unpin`"},
		{verb: api.VerbPin, vm: "holder", want: "holder is pinned: it keeps its VF until `sluice unpin`"},
		{verb: api.VerbPin, vm: "foreign", want: "foreign is pinned: it keeps its VF until `sluice unpin`"},
		{verb: api.VerbPin, vm: "unfit", want: "unfit is pinned until `sluice unpin`, but it cannot get a VF: ", stop: "can fail over"},
		{verb: api.VerbPin, vm: "off", want: "off is pinned until `sluice unpin`: it gets a VF once it runs"},
		{verb: api.VerbPin, vm: "elsewhere", want: "elsewhere is pinned until `sluice unpin`, but it cannot get a VF: ", stop: "br7"},
		{verb: api.VerbPin, vm: "plain", down: true, want: "plain is pinned until `sluice unpin`, but it cannot get a VF: ", stop: "is down"},
		{verb: api.VerbRelease, vm: "plain", want: "plain gets no VF until `sluice unpin`"},
		{verb: api.VerbRelease, vm: "holder", want: "holder gives its VF up and gets none until `sluice unpin`"},
		{
			verb: api.VerbRelease, vm: "foreign", want: "foreign is released until `sluice unpin`, but it keeps its VF: ",
			stop: "attached by somebody else",
		},
	} {
		b, snap := quiet(t, "", noon), hostFor()
		snap.PFs[0].LinkUp = !c.down
		b.core.Tick(noon, snap)
		b.Publish(b.core.View())
		before := fmt.Sprintf("%+v", *b.core.View().Target)
		r, err := b.Do(t.Context(), server.Command{Verb: c.verb, VM: model.VMID(c.vm), VMName: c.vm})
		if err != nil {
			t.Fatal(err)
		}
		if c.stop == "" && r.Text != c.want || !strings.HasPrefix(r.Text, c.want) {
			t.Errorf("%s %s: %q, want %q", c.verb, c.vm, r.Text, c.want)
		}
		if (r.Obstacle != "") != (c.stop != "") || !strings.Contains(r.Obstacle, c.stop) || !strings.Contains(r.Text, r.Obstacle) {
			t.Errorf("%s %s: %q prevents it, want %q", c.verb, c.vm, r.Obstacle, c.stop)
		}
		if fmt.Sprintf("%+v", *b.core.View().Target) != before {
			t.Error("foreseeing it decides")
		}
		next := hostFor()
		next.PFs[0].LinkUp, next.Time = !c.down, noon.Add(time.Second)
		b.core.Tick(next.Time, next)
		for _, got := range b.core.View().Target.Reasons { // what was promised is what is decided
			if got.VM == model.VMID(c.vm) && c.vm != "off" && got.Hold != ((c.verb == api.VerbPin) == (c.stop == "")) {
				t.Errorf("%s %s: promised %q, decided %s", c.verb, c.vm, r.Text, got)
			}
		}
	}
}
