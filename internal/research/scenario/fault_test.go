package scenario

import (
	"strings"
	"testing"

	"sluice/internal/config"
)

// In the scenarios with faults each VM is reachable, but for as long as each fault says.
func TestFaultScenarios(t *testing.T) {
	for _, name := range []string{"representor-faults", "ovn-faults"} {
		t.Run(name, func(t *testing.T) {
			s, err := Open("../../../scenarios/" + name + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			for i := range s.Faults {
				if _, set := s.pos[keyOf("faults", i)+".cut"]; !set {
					t.Errorf("fault %d does not say how long it may cut a VM off", i)
				}
			}
			for _, o := range run(t, s).Policies {
				if o.Plugs < 4 {
					t.Errorf("%s: %d plugs: hardly anything happened", o.Label, o.Plugs)
				}
			}
		})
	}
}

const cut = `
duration: 1m
pfs: [{name: pf0, vfs: 1, uplink: ovn}]
vms: [{name: a, load: {pps: 1000}}, {name: b, load: {pps: 10}}]
policies: [{name: activity, interval: 10s}]
faults:
`

// A fault that cuts a VM off for longer than it may, or that has nothing to happen to, ends the run with the place and the reason.
func TestFaultsThatFailARun(t *testing.T) {
	for text, want := range map[string]string{
		"  - {at: 20.5s, kind: representor-renamed, vm: a, cut: 400ms}": "policy activity: s.yaml:7:51: faults[0].cut: VM a is not reached from",
		"  - {at: 20.5s, kind: vfs-vanish, pf: pf0, cut: 1s}\n" +
			"  - {at: 30s, kind: representor-down, vm: a}": "faults[1]: VM a has no VF then",
		"  - {at: 20.5s, kind: representor-renamed, vm: b}": "faults[0]: VM b has no VF then",
	} {
		_, err := parse(t, cut+text).Run(t.Context(), RunOptions{Workers: 1, NoOptimum: true})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
	run(t, parse(t, cut+"  - {at: 20.5s, kind: representor-renamed, vm: a, cut: 600ms}"))
}

func TestComplaintsAboutFaults(t *testing.T) {
	for text, want := range map[string]string{
		"{at: 2s, kind: vf-vanish, pf: pf0}":                                   `s.yaml:7:13: faults[0].kind: unknown kind of fault "vf-vanish"`,
		"{at: 2m, kind: vfs-vanish, pf: pf0}":                                  "faults[0].at: is after the end of the run; lower it",
		"{at: 2s, kind: vfs-vanish}":                                           "faults[0]: does not say where it happens; add pf, or vm",
		"{at: 2s, kind: vfs-vanish, pf: pf1}":                                  `faults[0].pf: there is no PF "pf1"; name one`,
		"{at: 2s, kind: vfs-vanish, pf: pf0, vf: 0}":                           "faults[0].vf: vfs-vanish happens to all VFs of the PF",
		"{at: 2s, kind: port-deleted, pf: pf0}":                                "faults[0]: port-deleted happens to one VF; add vf",
		"{at: 2s, kind: port-deleted, pf: pf0, vf: 1}":                         "faults[0].vf: PF pf0 has no VF 1; name one below",
		"{at: 2s, kind: port-deleted, vm: c}":                                  `faults[0].vm: there is no VM "c"; name one`,
		"{at: 2s, kind: port-deleted, vm: a, pf: pf0}":                         "faults[0].vm: pf or vf is also set; keep",
		"{at: 2s, kind: port-deleted, pf: pf0, vf: 0, for: 1s}":                "faults[0].for: port-deleted is over at once; leave it out",
		"{at: 2s, kind: vfs-vanish, vm: a}, {at: 1s, kind: vfs-vanish, vm: a}": "faults[1].at: is before the fault above it",
	} {
		_, err := Parse(config.Document{Name: "s.yaml", Data: []byte(cut + "  [" + text + "]")})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
	bridge := strings.Replace(cut, "ovn", "bridge", 1)
	want := "faults[0].kind: PF pf0 has uplink bridge, to which this cannot happen; give it another: [ovn]"
	_, err := Parse(config.Document{Name: "s.yaml", Data: []byte(bridge + "  - {at: 2s, kind: switch-stopped, vm: a}")})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
