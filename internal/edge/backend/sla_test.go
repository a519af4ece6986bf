package backend

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/api/v1"
	"sluice/internal/edge/server"
	"sluice/internal/model"
)

// host is a Backend that has observed two VMs behind a link of 10 Gbit/s.
func host(t *testing.T, path string, edit ...func(*model.Rules)) *Backend {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	b := quiet(t, path, now)
	rules := b.rules()
	rules.KeepSLAs, rules.HostPackets = true, 800_000
	rules.VMs = []model.VMRule{{Match: "web", SLA: model.SLA{Guarantee: model.Rate{Bits: 4e9}, Source: "sluice.yaml:3:5"}}}
	for _, e := range edit {
		e(&rules)
	}
	b.rules = func() model.Rules { return rules }
	vm := func(id model.VMID, name string) model.VM {
		return model.VM{ID: id, Name: name, State: model.VMRunning, NICs: []model.NIC{
			{Alias: "ua-net0", Network: "br0", VF: model.NoVF}, {Alias: "ua-net1", Network: "br1", VF: model.NoVF},
		}}
	}
	if err := b.core.SetRules(b.overrides.Over(rules)); err != nil {
		t.Fatal(err)
	}
	b.Publish(&model.View{Mode: model.ModeEnforce, Target: &model.Target{}, Snapshot: &model.Snapshot{
		Time: now, VMs: []model.VM{vm("a", "db"), vm("b", "web")},
		PFs: []model.PF{{Name: "pf0", Network: "br0", Uplink: model.Uplink{Switch: "br0"}, Managed: true, LinkUp: true, Speed: 10e9}},
	}})
	return b
}

func set(bits uint64, nic string) server.Command {
	return server.Command{
		Verb: api.VerbSetSLA, VM: "a", VMName: "db", User: "alice", NIC: nic,
		SLA: model.SLA{Guarantee: model.Rate{Bits: bits}},
	}
}

// slaOf returns what the rules in force give a NIC of db.
func slaOf(b *Backend, nic int) model.SLA {
	rules := b.core.View().Rules
	v, _ := b.View()
	vm := v.Snapshot.FindVM("a")
	return rules.SLA(vm, &vm.NICs[nic])
}

// An SLA takes effect at once and survives a restart, until it is cleared or expires, and does not affect pins.
func TestSLAIsSetAndCleared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "overrides.json")
	b := host(t, path)
	do := func(c server.Command) {
		t.Helper()
		if _, err := b.Do(t.Context(), c); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
	}
	has := func(what string, first, second model.SLA) {
		t.Helper()
		if diff := cmp.Diff([]model.SLA{first, second}, []model.SLA{slaOf(b, 0), slaOf(b, 1)}); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	const alice, bob = "sluice sla set by alice", "sluice sla set by bob"
	gb := func(n uint64) model.Rate { return model.Rate{Bits: n * 1e9} }
	general := server.Command{
		Verb: api.VerbSetSLA, VM: "a", VMName: "db", User: "bob", For: time.Hour, Reason: "backup",
		SLA: model.SLA{Guarantee: gb(1), Limit: gb(5)},
	}
	do(server.Command{Verb: api.VerbPin, VM: "a", VMName: "db"})
	do(set(2e9, "ua-net0"))
	do(general)
	has("the single NIC first", model.SLA{Guarantee: gb(2), Limit: gb(5), Source: alice + "; " + bob},
		model.SLA{Guarantee: gb(1), Limit: gb(5), Source: bob})
	do(set(3e9, "ua-net0"))
	both := []model.SLA{{Guarantee: gb(3), Limit: gb(5), Source: alice + "; " + bob}, {Guarantee: gb(1), Limit: gb(5), Source: bob}}
	has("set once more", both[0], both[1])

	b = host(t, path) // as after a restart
	do(server.Command{Verb: api.VerbUnpin, VM: "a", VMName: "db"})
	has("after a restart and an unpin", both[0], both[1])
	if list := b.overrides.List(); len(list) != 2 || list[0].Reason != "backup" || list[0].By != "bob" ||
		list[0].Until.Sub(list[0].At) != time.Hour {
		t.Errorf("kept: %+v", list)
	}
	now := b.Now()
	b.Now = func() time.Time { return now.Add(time.Hour) }
	b.Publish(latest(b))
	has("past the end of one", model.SLA{Guarantee: gb(3), Source: alice}, model.SLA{})
	do(server.Command{Verb: api.VerbClearSLA, VM: "a", VMName: "db", NIC: "ua-net1"}) // another pattern
	has("after clearing another", model.SLA{Guarantee: gb(3), Source: alice}, model.SLA{})
	do(server.Command{Verb: api.VerbClearSLA, VM: "a", VMName: "db"})
	has("after clearing all", model.SLA{}, model.SLA{})
	if res, err := b.Do(t.Context(), server.Command{Verb: api.VerbClearSLA, VM: "a", VMName: "db"}); err != nil ||
		!strings.Contains(res.Text, "nothing to undo") {
		t.Errorf("%q, %v", res.Text, err)
	}
}

// Setting an SLA that cannot be kept on a VF warns that the VM loses its VF.
func TestWhatKeepsAVMFromVFsIsSaid(t *testing.T) {
	details := func(s model.SLA, edit ...func(*model.Rules)) string {
		t.Helper()
		c := set(0, "ua-net0")
		c.SLA = s
		res, err := host(t, "", edit...).Do(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(res.Details, "\n")
	}
	both := model.SLA{Limit: model.Rate{Packets: 1000}, Receive: model.Rate{Bits: 1e9}}
	if got := details(both); !strings.Contains(got, "what a VF receives") || !strings.Contains(got, "packets/s on a VF") {
		t.Errorf("%q", got)
	}
	if got := details(model.SLA{Limit: model.Rate{Bits: 1e9}}); strings.Contains(got, "VF") {
		t.Errorf("a limit in bits: %q", got)
	}
	if got := details(both, func(r *model.Rules) { r.KeepSLAs = false }); strings.Contains(got, "VF") {
		t.Errorf("while no SLA is kept: %q", got)
	}
}

// An SLA of a VM with VFs that somebody else attached does not reach those, and the user is told.
func TestSLAOfAForeignVF(t *testing.T) {
	b := host(t, "")
	v, _ := b.View()
	id := func(index int) model.VFID { return model.VFID{PF: "pf0", Index: index} }
	v.Snapshot.PFs[0].VFs = []model.VF{
		{ID: id(0), Holder: "a", Owner: model.OwnerSluice},
		{ID: id(1), Holder: "a", Owner: model.OwnerForeign},
		{ID: id(2), Holder: "a", Owner: model.OwnerForeign}, // behind none of its NICs
		{ID: id(3), Holder: "b", Owner: model.OwnerForeign},
	}
	nics := v.Snapshot.FindVM("a").NICs
	nics[0].VF, nics[1].VF = id(0), id(1)
	note := func(vf string) string {
		return "db has VF " + vf + ", which somebody else attached: Sluice does not limit it there; detach it if its guest can go on over virtio"
	}
	for _, c := range []struct {
		nic  string
		want []string
	}{{"ua-net0", nil}, {"ua-net1", []string{note("pf0/1")}}, {"", []string{note("pf0/1"), note("pf0/2")}}} {
		res, err := b.Do(t.Context(), set(1e9, c.nic))
		if diff := cmp.Diff(c.want, res.Details); err != nil || diff != "" {
			t.Errorf("NIC %q: %v, %s", c.nic, err, diff)
		}
	}
}

// An SLA that cannot be kept is rejected with the calculation, and changes nothing.
func TestSLAThatCannotBeKeptIsRefused(t *testing.T) {
	class := set(1e9, "")
	class.SLA.Class = "gld"
	packets := set(0, "ua-net0")
	packets.SLA.Guarantee.Packets = 900_000
	limited := set(3e9, "ua-net0")
	for _, tc := range []struct {
		name string
		cmd  server.Command
		want string
	}{
		{"over-committed", set(9e9, "ua-net0"), "more is guaranteed on pf0 than its link carries: " +
			"asked 9 + 4 Gbit/s, link 10 Gbit/s; db keeps 6.923 of 9 Gbit/s, web keeps 3.077 of 4 Gbit/s"},
		{"packets", packets, "more is guaranteed in packets on virtio than the host carries: " +
			"asked 900 kpps, host 800 kpps; db keeps 800.000 of 900 kpps"},
		{"above its link", set(11e9, "ua-net0"), "NIC ua-net0 of db: " +
			"it is guaranteed 11Gbit, but the link of pf0 carries 10Gbit (sluice sla set by alice)"},
		{"above the limit of a rule", limited, "NIC ua-net0 of db: " +
			"its guarantee of 3Gbit is above its limit of 2Gbit, and the limit applies (sluice sla set by alice; sluice.yaml:9:5)"},
		{"unknown class", class, `NIC ua-net0 of db: there is no class "gld", which its SLA names; add it`},
		{"unknown NIC", set(1e9, "eth0"), `db has no NIC "eth0"; it has ua-net0 (00:00:00:00:00:00, br0), ua-net1 (00:00:00:00:00:00, br1)`},
	} {
		b := host(t, filepath.Join(t.TempDir(), "overrides.json"), func(r *model.Rules) {
			r.Classes = []model.Class{{Name: "gold"}}
			if tc.name == "above the limit of a rule" {
				r.VMs = append(r.VMs, model.VMRule{Match: "db", SLA: model.SLA{Limit: model.Rate{Bits: 2e9}, Source: "sluice.yaml:9:5"}})
			}
		})
		for _, nic := range []string{"", "ua-net0"} { // a valid one first, which must be kept
			if _, err := b.Do(t.Context(), set(1e8, nic)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := b.Do(t.Context(), tc.cmd)
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) || !strings.Contains(err.Error(), "; ") {
			t.Errorf("%s:\nwant %s\nhave %v", tc.name, tc.want, err)
		}
		if len(b.overrides.List()) != 2 || slaOf(b, 0).Guarantee.Bits != 1e8 {
			t.Errorf("%s: it counts all the same", tc.name)
		}
	}
}

func TestOvercommitmentIsAllowedWhereItIs(t *testing.T) {
	b := host(t, "", func(r *model.Rules) { r.Overcommit = true })
	res, err := b.Do(t.Context(), set(9e9, "ua-net0"))
	if err != nil || len(res.Details) != 1 || !strings.Contains(res.Details[0], "asked 9 + 4 Gbit/s, link 10 Gbit/s") {
		t.Errorf("%+v, %v", res, err)
	}
	// An SLA that was already too large can still be reduced.
	b.rules = func(r model.Rules) func() model.Rules { r.Overcommit = false; return func() model.Rules { return r } }(b.rules())
	if _, err := b.Do(t.Context(), set(8e9, "ua-net0")); err != nil {
		t.Errorf("less than before: %v", err)
	}
	b = host(t, "", func(r *model.Rules) { r.KeepSLAs = false })
	res, err = b.Do(t.Context(), set(1e9, ""))
	if err != nil || len(res.Details) != 2 || !strings.Contains(res.Details[1], "no SLA is enforced") {
		t.Errorf("%+v, %v", res, err)
	}
}

// Limits that exceed what the host carries only together are accepted: a note says so, once.
func TestPacketLimitsAreNotRefused(t *testing.T) {
	b := host(t, "", func(r *model.Rules) { r.VMs[0].SLA = model.SLA{Limit: model.Rate{Packets: 500_000}} })
	for _, tc := range []struct {
		limit uint64
		want  string
	}{{300_000, ""}, {400_000, "limits 400 + 500 kpps, host 800 kpps; "}, {400_000, ""}} {
		c := set(0, "ua-net0")
		c.SLA.Limit.Packets = tc.limit
		res, err := b.Do(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(res.Details, "\n"); !strings.Contains(got, tc.want) || strings.Contains(got, "kpps") != (tc.want != "") {
			t.Errorf("a limit of %d: %q, want %q", tc.limit, got, tc.want)
		}
	}
}

// What setting an SLA undoes, and what of it has no effect, is said.
func TestSettingAnSLASaysWhatIsLost(t *testing.T) {
	b := host(t, "", func(r *model.Rules) { r.HostPackets = 0 })
	do := func(s model.SLA) string {
		t.Helper()
		res, err := b.Do(t.Context(), server.Command{Verb: api.VerbSetSLA, VM: "a", VMName: "db", User: "alice", NIC: "ua-net0", SLA: s})
		if err != nil {
			return err.Error()
		}
		return strings.Join(res.Details, "\n")
	}
	guarantee, limit := model.SLA{Guarantee: model.Rate{Bits: 1e9}}, model.SLA{Limit: model.Rate{Bits: 2e9}}
	for _, tc := range []struct {
		sla  model.SLA
		want string
	}{
		{guarantee, ""},
		{guarantee, ""},
		{limit, "this replaces all that was set before: guarantee 1Gbit"},
		{model.SLA{Class: "gld"}, "this replaces all that was set before: limit 2Gbit\n" +
			`class "gld" has no effect until it is among classes in sluice.yaml, which has none`},
		{model.SLA{Guarantee: model.Rate{Packets: 5000}}, "this replaces all that was set before: class gld\n" +
			"on virtio 5kpps are not kept while nothing says how many the host carries; set bandwidth.packets in sluice.yaml"},
	} {
		if have := do(tc.sla); have != tc.want {
			t.Errorf("%+v:\nwant %s\nhave %s", tc.sla, tc.want, have)
		}
	}
}
