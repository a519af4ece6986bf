package plan

import (
	"slices"
	"testing"

	"sluice/internal/model"
)

// represented is world on OVN: VM a holds vf0, whose representor is rep0.
func represented() *model.Snapshot {
	s := world()
	pf := &s.PFs[0]
	pf.Uplink, pf.SelfFDB = model.Uplink{Kind: "ovn", Switch: "br0", Port: "pf0", Representors: true}, nil
	pf.VFs[0].Port, pf.VFs[1].Port = "rep0", "rep1"
	s.VMs[0].NICs[0].Route, s.VMs[0].NICs[0].RouteBy, s.VMs[1].NICs[0].Route = "rep0", "ovn", ""
	return s
}

// noVFs destroys the VFs, as a write to sriov_numvfs does.
func noVFs(s *model.Snapshot) {
	s.PFs[0].NumVFs, s.PFs[0].VFs = 0, nil
	s.VMs[0].NICs[0].VF, s.VMs[0].NICs[0].VFOwner = model.NoVF, ""
}

// What remains at a switch on which only Sluice makes routes sends frames to a representor that has another name, or to nobody. It is found
// even if no PF is known any more, and the repair goes to that switch.
func TestRoutesToWhatIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(s *model.Snapshot)
		want  string
	}{
		"sound":  {func(*model.Snapshot) {}, ""},
		"no VFs": {noVFs, "route-at-pf: route-to-tap announce"},
		"no VFs, and the NIC is in mode legacy": {
			func(s *model.Snapshot) { noVFs(s); s.PFs[0].Uplink, s.PFs[0].Network = model.Uplink{Why: "legacy"}, "" },
			"route-at-pf: route-to-tap announce",
		},
		"no PF":                 {func(s *model.Snapshot) { noVFs(s); s.PFs = nil }, "route-at-pf: route-to-tap announce"},
		"somebody else's entry": {func(s *model.Snapshot) { noVFs(s); s.VMs[0].NICs[0].RouteBy = "" }, ""},
		"renamed":               {func(s *model.Snapshot) { s.PFs[0].VFs[0].Port = "eth7" }, "route-elsewhere: follow-guest announce"},
		"renamed, while the guest does not use it": {
			func(s *model.Snapshot) { s.PFs[0].VFs[0].Port, s.PFs[0].VFs[0].InGuest = "eth7", model.No },
			"route-at-idle-vf: follow-guest announce",
		},
		"set down": {func(s *model.Snapshot) { s.PFs[0].VFs[0].PortDown = true }, "port-down: follow-guest announce"},
		"the VM is gone": {
			func(s *model.Snapshot) {
				noVFs(s)
				s.VMs = s.VMs[1:]
				s.Routes = []model.Route{{Network: "br0", MAC: macA, Port: "rep0", Kind: "ovn"}}
			}, "stale-route: close-dual-path",
		},
	} {
		s := represented()
		c.spoil(s)
		var got string
		for _, f := range NewChecker().Check(s, nobody{}, DefaultTimeouts) {
			got += f.Code + ": " + kinds(f.Repair)
			for _, step := range f.Repair {
				if step.Path.Kind != "ovn" || step.Path.MAC != macA {
					t.Errorf("%s: %s by %+v", name, step.Kind, step.Path)
				}
			}
		}
		if got != c.want {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}

// A guest whose VF lost its port of the switch is taken off it without a dual path, which cannot be.
func TestUnplugWithoutPort(t *testing.T) {
	const lost = "check-virtio route-to-tap detach wait-gone route-to-tap clear-vf close-dual-path announce"
	for name, spoil := range map[string]func(s *model.Snapshot){
		"no representor":         func(s *model.Snapshot) { s.PFs[0].VFs[0].Port = "" },
		"mode legacy":            func(s *model.Snapshot) { s.PFs[0].Uplink = model.Uplink{Why: "legacy"} },
		"another kind serves it": func(s *model.Snapshot) { s.PFs[0].Uplink = model.Uplink{Kind: "openvswitch", Switch: "br-ex"} },
		"the tap is elsewhere":   func(s *model.Snapshot) { s.VMs[0].NICs[0].Network = "br1" },
	} {
		s := represented()
		spoil(s)
		m := Unplug(s, &s.VMs[0], &s.VMs[0].NICs[0], &model.Reason{}, DefaultTimeouts)
		if got := kinds(m.Steps); got != lost {
			t.Errorf("%s: %s", name, got)
		}
		for _, step := range m.Steps {
			if step.Path != (model.PathStep{}) && step.Path.Kind != "ovn" {
				t.Errorf("%s: %s by %+v", name, step.Kind, step.Path)
			}
		}
		for at := range m.Steps {
			if slices.ContainsFunc(Undo(m, at, false, DefaultTimeouts), func(s model.Step) bool { return s.Kind == model.StepOpenDualPath }) {
				t.Errorf("%s: undone after %s with a dual path", name, m.Steps[at].Kind)
			}
		}
	}
}
