package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice/internal/model"
)

var ignorePlaces = cmpopts.IgnoreUnexported(Config{})

func parseText(t *testing.T, text string) *Config {
	t.Helper()
	c, err := parse([]Document{{Name: "sluice.yaml", Data: []byte(text)}}, Known{}, nil)
	if err != nil {
		t.Fatalf("unexpected error:\n%v", err)
	}
	return c
}

func TestEmptyFileGivesDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "pfs:\nvms: []\nparams:\nmoves:\n"} {
		if diff := cmp.Diff(Default(), parseText(t, text), ignorePlaces, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q differs from the defaults:\n%s", text, diff)
		}
	}
}

func TestEveryKeyIsRead(t *testing.T) {
	c := parseText(t, `
mode: enforce
sample: 500ms
policy: fair
interval: 5m
params: {hold: 10, hysteresis: 0.15}
pfs:
  - {name: pf0, vfs: "0-3,6", network: br0, speed: 25Gbit}
  - name: pf1
  - name: pf2
    vfs: 3
vms:
  - match: "web-*"
    weight: 2.5
    priority: -3
    class: web
  - match: 6BA7B810-9DAD-11D1-80B4-00C04FD430C8
    pin: true
    failover: bond
    guarantee: 2.5Gbit
    limit: 10Gbit 200kpps
    receive: 20Gbit
  - {match: "batch", forbid: true, latency_sensitivity: low}
  - {match: "batch", sla_nic: ua-net1, guarantee: 1Gbit, weight: 3}
classes: [{name: web, weight: 2, priority: 5, guarantee: 1Gbit 10kpps, limit: 4Gbit, receive: 5Gbit, minimum: 100Mbit,
  latency_sensitivity: high}]
worth: {latency: 4, cpu: true, packet_cpu: 1500ns, kilobyte_cpu: 0.4us}
bandwidth: {enabled: false, allocator: daqs, period: 40ms, tree: off, overcommit: allow, packets: 800kpps, in_guest: true, metadata: false, stop: lift}
virtual_pfs: {guests: [{match: "node-*", macs: "02:*", vlans: "30,10-20", no_spoof: true, addresses: "10.1.2.3/8",
  guarantee: 1Gbit, limit: 2Gbit, weight: 3, counters: 5s}, {match: "*", refuse: true}]}
moves: {parallel: 8, retries: 0, plug_timeout: 40s, unplug_timeout: 50s, backoff: 1m, backoff_max: 1h}
libvirt: {uri: "test:///default"}
guest_agent: {enabled: false, timeout: 1s, every: 10s}
api: {socket: /tmp/s.sock, group: "", listen: "[::1]:9178"}
state_dir: /srv/sluice
log: {level: debug, format: json}
`)
	want := &Config{
		Mode: model.ModeEnforce, Sample: 500 * time.Millisecond, Policy: "fair", Interval: 5 * time.Minute,
		Params: model.Params{"hold": 10, "hysteresis": 0.15},
		PFs: []PF{
			{Name: "pf0", VFs: VFSet{Ranges: []VFRange{{0, 3}, {6, 6}}}, Network: "br0", Speed: Rate{Bits: 25e9}},
			{Name: "pf1", VFs: VFSet{All: true}},
			{Name: "pf2", VFs: VFSet{Ranges: []VFRange{{3, 3}}}},
		},
		VMs: []VM{
			{Match: "web-*", Weight: 2.5, Priority: -3, Class: "web"},
			{
				Match: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", Pin: true, Failover: model.FailoverBond,
				Guarantee: Rate{Bits: 2.5e9}, Limit: Rate{Bits: 1e10, Packets: 2e5}, Receive: Rate{Bits: 2e10},
			},
			{Match: "batch", Forbid: true, Latency: model.SensitivityLow},
			{Match: "batch", SLANIC: "ua-net1", Guarantee: Rate{Bits: 1e9}, Weight: 3},
		},
		Classes: []Class{{
			Name: "web", Weight: 2, Priority: 5,
			Guarantee: Rate{Bits: 1e9, Packets: 1e4}, Limit: Rate{Bits: 4e9}, Receive: Rate{Bits: 5e9}, Minimum: Rate{Bits: 1e8},
			Latency: model.SensitivityHigh,
		}},
		Worth: Worth{Latency: 4, CPU: true, PacketCPU: 1500, KilobyteCPU: 400},
		Bandwidth: Bandwidth{
			Allocator: "daqs", Period: 40 * time.Millisecond, Tree: "off", Overcommit: "allow", Packets: Rate{Packets: 8e5}, InGuest: true,
			Stop: "lift",
		},
		VirtualPFs: VirtualPFs{Guests: []Guest{
			{
				Match: "node-*", MACs: "02:*", VLANs: model.VLANs{{First: 10, Last: 20}, {First: 30, Last: 30}}, NoSpoofCheck: true,
				Addresses: "10.1.2.3/8",
				Guarantee: Rate{Bits: 1e9}, Limit: Rate{Bits: 2e9}, Weight: 3, Counters: 5 * time.Second,
			},
			{Match: "*", Refuse: true},
		}},
		Moves: Moves{
			Parallel: 8, PlugTimeout: 40 * time.Second, UnplugTimeout: 50 * time.Second,
			Backoff: time.Minute, BackoffMax: time.Hour,
		},
		Libvirt:    Libvirt{URI: "test:///default"},
		GuestAgent: GuestAgent{Timeout: time.Second, Every: 10 * time.Second},
		API:        API{Socket: "/tmp/s.sock", Listen: "[::1]:9178"},
		StateDir:   "/srv/sluice",
		Log:        Log{Level: "debug", Format: "json"},
	}
	if diff := cmp.Diff(want, c, ignorePlaces); diff != "" {
		t.Error(diff)
	}
	sameWhenPrinted(t, c)
	wantRules := model.Rules{
		HostPackets: 800e3, Overcommit: true,
		Worth:  model.Worth{Latency: 4, CPU: true, Cost: model.PacketCost{Packet: 1500, Kilobyte: 400}},
		Policy: "fair", Interval: 5 * time.Minute, Params: c.Params,
		VMs: []model.VMRule{
			{Match: "web-*", Weight: 2.5, Priority: -3, Class: "web", SLA: model.SLA{Weight: 2.5, Source: "sluice.yaml:13:5"}},
			{
				Match: "6ba7b810-9dad-11d1-80b4-00c04fd430c8", Pin: true, Failover: model.FailoverBond,
				SLA: model.SLA{
					Guarantee: Rate{Bits: 2.5e9}, Limit: Rate{Bits: 1e10, Packets: 2e5}, Receive: Rate{Bits: 2e10}, Source: "sluice.yaml:17:5",
				},
			},
			{Match: "batch", Forbid: true, Sensitivity: model.SensitivityLow},
			{Match: "batch", SLANIC: "ua-net1", SLA: model.SLA{Guarantee: Rate{Bits: 1e9}, Weight: 3, Source: "sluice.yaml:24:5"}},
		},
		Classes: []model.Class{{Name: "web", Weight: 2, Priority: 5, Sensitivity: model.SensitivityHigh, SLA: model.SLA{
			Guarantee: Rate{Bits: 1e9, Packets: 1e4}, Limit: Rate{Bits: 4e9}, Receive: Rate{Bits: 5e9}, Weight: 2, ClassMin: 1e8,
			Source: "class web, sluice.yaml:25:11",
		}}},
	}
	if diff := cmp.Diff(wantRules, c.Rules()); diff != "" {
		t.Error(diff)
	}
}

// write creates a configuration directory and returns the path of the main file.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "sluice.yaml")
}

func TestFragmentsMergeInNameOrder(t *testing.T) {
	path := write(t, map[string]string{
		"sluice.yaml":         "policy: fair\npfs: [{name: a, vfs: all}]\nmoves: {parallel: 2}\n",
		"conf.d/20-more.yaml": "pfs: [{name: c}]\nmoves: {retries: 1}\nparams: {x: 1}\n",
		"conf.d/10-some.yaml": "pfs: [{name: b}]\nmode: enforce\nparams: {y: 2}\n",
		"conf.d/.hidden.yaml": "nonsense: 1\n",
		"conf.d/old.yaml~":    "nonsense: 1\n",
	})
	c, err := Load(path, Known{})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{c.PFs[0].Name, c.PFs[1].Name, c.PFs[2].Name}
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
		t.Error(diff)
	}
	if c.Mode != model.ModeEnforce || c.Policy != "fair" || c.Moves.Parallel != 2 || c.Moves.Retries != 1 || len(c.Params) != 2 {
		t.Errorf("not merged: %+v", c)
	}
	if len(c.Files()) != 3 {
		t.Errorf("files: %v", c.Files())
	}
}

func TestFragmentErrorsNameTheirFile(t *testing.T) {
	path := write(t, map[string]string{
		"sluice.yaml":    "policy: fair\npfs:\n  - name: pf0\nvms:\n  - match: db\n",
		"conf.d/a.yaml":  "policy: activity\npfs:\n  - name: pf0\nvms:\n  - match: db\n",
		"conf.d/b.yml":   "mode: enforce\n",
		"conf.d/c.yaml":  "moves: {parllel: 3}\n",
		"conf.d/dd.yaml": "a: [\n",
	})
	_, err := Load(path, Known{})
	if err == nil {
		t.Fatal("no error")
	}
	dir := filepath.Dir(path) + "/"
	got := strings.ReplaceAll(err.Error(), dir, "")
	for _, want := range []string{
		`conf.d/b.yml: fragments end in .yaml; rename it`,
		`conf.d/a.yaml:1:1: policy: set twice, first at sluice.yaml:1:1; keep one of them`,
		`conf.d/a.yaml:3:5: pfs[1].name: PF "pf0" already has an entry, at sluice.yaml:3:5; merge the two`,
		`conf.d/a.yaml:5:5: vms[1].match: pattern "db" already has an entry, at sluice.yaml:5:5; merge the two`,
		`conf.d/c.yaml:1:9: unknown key "moves.parllel"; did you mean "parallel"?`,
		`conf.d/dd.yaml:1:4: `,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing %q in\n%s", want, got)
		}
	}
}

func TestMissingFile(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"), Known{})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "--config") ||
		!strings.Contains(err.Error(), "installs: /usr/share/doc/sluice/sluice.yaml") {
		t.Errorf("want not-exist with a remedy, have: %v", err)
	}
}

func TestHugeFileIsRefused(t *testing.T) {
	for _, text := range []string{"# " + strings.Repeat("x", maxFile), strings.Repeat("#\n", maxLines+1)} {
		path := write(t, map[string]string{"sluice.yaml": text})
		if _, err := Load(path, Known{}); err == nil || !strings.Contains(err.Error(), "larger than") {
			t.Errorf("have: %v", err)
		}
	}
}

func TestCheckWorld(t *testing.T) {
	c := parseText(t, "pfs:\n  - name: pf0\n  - name: enp1s0f2\n    vfs: 0\n")
	hostOf := func(names ...string) (pfs []model.PF) {
		for _, n := range names {
			pfs = append(pfs, model.PF{Name: n, Uplink: model.Uplink{Switch: "br0", Port: n}})
		}
		return pfs
	}
	if err := c.CheckWorld(hostOf("pf0", "enp1s0f2")); err != nil {
		t.Errorf("unexpected: %v", err)
	}
	for _, tc := range []struct {
		have []string
		want string
	}{
		{[]string{"pf0", "enp1s0f1"}, `sluice.yaml:3:5: pfs[1].name: unknown PF "enp1s0f2"; did you mean "enp1s0f1"?`},
		{[]string{"pf0", "ens9"}, `sluice.yaml:3:5: pfs[1].name: unknown PF "enp1s0f2"; this host has ens9, pf0`},
	} {
		if err := c.CheckWorld(hostOf(tc.have...)); err == nil || err.Error() != tc.want {
			t.Errorf("want %q\nhave %v", tc.want, err)
		}
	}
	if n := len(Errors(c.CheckWorld(nil))); n != 2 {
		t.Errorf("want an error for each of 2 PFs, have %d", n)
	}
}

// A PF whose VFs no VM could use is rejected, unless the condition may resolve by itself.
func TestCheckWorldRefusesWhatCannotWork(t *testing.T) {
	ovs := model.Uplink{
		Why:    "pf0 is a port of Open vSwitch, which Sluice cannot steer yet",
		Remedy: "connect the PF and the VMs' taps by a Linux bridge",
	}
	backup := model.Uplink{Switch: "br0", Port: "bond0", Why: "pf0 is a backup of bond bond0", Remedy: "wait", Passes: true}
	for _, tc := range []struct {
		text string
		up   model.Uplink
		want string
	}{
		{
			"pfs: [{name: pf0}]", ovs,
			"sluice.yaml:1:8: pfs[0].name: no VM could use VFs of pf0: pf0 is a port of Open vSwitch, which Sluice cannot steer yet; connect " +
				"the PF and the VMs' taps by a Linux bridge",
		},
		{
			"pfs: [{name: pf0, network: label}]",
			model.Uplink{Why: "pf0 is in no bridge", Remedy: "put it into one"},
			"sluice.yaml:1:8: pfs[0].name: no VM could use VFs of pf0: pf0 is in no bridge; put it into one",
		},
		{
			"pfs: [{name: pf0, network: br1}]",
			model.Uplink{Switch: "br0", Port: "pf0"},
			`sluice.yaml:1:19: pfs[0].network: pf0 leads to bridge br0, not to "br1": VMs of another bridge cannot be reached through its VFs; ` +
				`write br0 or leave network out`,
		},
		{"pfs: [{name: pf0, network: br0}]", model.Uplink{Switch: "br0", Port: "bond0"}, ""},
		{"pfs: [{name: pf0}]", backup, ""},
	} {
		err := parseText(t, tc.text).CheckWorld([]model.PF{{Name: "pf0", Uplink: tc.up}})
		if have := fmt.Sprint(err); have != tc.want && (err != nil || tc.want != "") {
			t.Errorf("%s\nwant %s\nhave %s", tc.text, tc.want, have)
		}
	}
}

func TestWarnings(t *testing.T) {
	c := parseText(t, "vms:\n  - match: db\n    guarantee: 1Gbit\n    limit: 2Gbit\n")
	got := strings.Join(c.Warnings(), "\n")
	want := `sluice.yaml: pfs lists no PF, so Sluice has no VF to assign; add one, for example ` + "`pfs: [{name: eth0, vfs: all}]`" + ``
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	hasty := parseText(t, "pfs: [{name: a, vfs: all}]\npolicy: activity\ninterval: 5s\n").Warnings()
	if len(hasty) != 1 || !strings.Contains(hasty[0],
		"guest_agent.every of 5s, VF holders are counted fewer than three times in an interval of 5s, so activity may") {
		t.Errorf("an interval as short as the agent's: %q", hasty)
	}
	all := parseText(t, "pfs:\n  - name: eth0\n  - {name: eth1, vfs: all}\n").Warnings()
	if len(all) != 1 || all[0] != "sluice.yaml:2:5: pfs[0]: vfs is not set, so Sluice takes all VFs of eth0; write vfs: all, or a list" {
		t.Errorf("PF without vfs: %q", all)
	}
	known := Known{Policies: map[string]model.PolicyInfo{"adaptive": {Packets: true}, "fair": {Rounds: true}}}
	for text, want := range map[string]string{
		"interval: 1m":                 "s:2:1: interval has no effect on adaptive, which decides at every sample; leave it out",
		"interval: 5m":                 "", // the default, as in packaging/sluice.yaml
		"policy: fair\ninterval: 1m":   "",
		"policy: adaptive\nsample: 2s": "",
		"bandwidth: {in_guest: true}":  "",
		"worth: {cpu: true}":           "",
		"worth: {cpu: true, packet_cpu: 1us, kilobyte_cpu: 1us}": "",
		"worth: {kilobyte_cpu: 1us}": "s:2:9: worth.kilobyte_cpu has no effect while worth.cpu is false; write " +
			"worth: {cpu: true}, or leave it out",
		"policy: fair\nworth: {cpu: true}": "s:3:9: worth.cpu has no effect on fair, which does not rank by packets; " +
			"choose adaptive or activity, or leave it out",
		"guest_agent: {enabled: false}\nbandwidth: {in_guest: true}": "s:3:13: bandwidth.in_guest limits nobody while guest_agent.enabled is " +
			"false, " +
			"since agents set limits in guests; write guest_agent: {enabled: true}, or leave bandwidth.in_guest out",
	} {
		c, err := parse([]Document{{Name: "s", Data: []byte("pfs: [{name: a, vfs: all}]\n" + text + "\n")}}, known, nil)
		if err != nil {
			t.Fatal(err)
		}
		if have := strings.Join(c.Warnings(), "\n"); have != want {
			t.Errorf("%s:\nwant %s\nhave %s", text, want, have)
		}
	}
	if w := parseText(t, "pfs: [{name: a, vfs: all}]\napi: {listen: \"127.0.0.1:1\"}\n").Warnings(); len(w) != 0 {
		t.Errorf("unexpected: %q", w)
	}
}

// TestIntervalIsThePolicys checks the policy's default interval, which is never below the sample.
func TestIntervalIsThePolicys(t *testing.T) {
	known := Known{Policies: map[string]model.PolicyInfo{"adaptive": {}, "vnraf": {Interval: 10 * time.Second}}}
	for text, want := range map[string]time.Duration{
		"":                            5 * time.Minute,
		"policy: vnraf":               10 * time.Second,
		"policy: vnraf\ninterval: 2m": 2 * time.Minute,
		"policy: vnraf\nsample: 20s":  20 * time.Second,
	} {
		c, err := parse([]Document{{Name: "s", Data: []byte("pfs: [{name: a, vfs: all}]\n" + text + "\n")}}, known, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.Interval != want {
			t.Errorf("%q: an interval of %s, want %s", text, c.Interval, want)
		}
	}
}

// The period is the allocator's own unless it is set.
func TestPeriodIsTheAllocators(t *testing.T) {
	known := Known{Allocators: map[string]model.AllocatorInfo{"waterfill": {Period: 100 * time.Millisecond}, "daqs": {Period: time.Second}}}
	for text, want := range map[string]time.Duration{
		"{}":                            100 * time.Millisecond,
		"{allocator: daqs}":             time.Second,
		"{allocator: daqs, period: 2s}": 2 * time.Second,
		"{period: 2s}":                  2 * time.Second,
	} {
		c, err := parse([]Document{{Name: "s", Data: []byte("bandwidth: " + text + "\n")}}, known, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.Bandwidth.Period != want {
			t.Errorf("%q: a period of %s, want %s", text, c.Bandwidth.Period, want)
		}
	}
}

func TestGuaranteesInPackets(t *testing.T) {
	const text = "pfs: [{name: a, vfs: all}]\nbandwidth: {packets: 800kpps}\nvms: [{match: a, guarantee: 800kpps}, {match: b, guarantee: " +
		"1Gbit 1Mpps}]\n"
	want := []string{"sluice.yaml:3:50: vms[1].guarantee: virtio cannot carry 1Mpps here (bandwidth.packets is 800kpps), so it can be " +
		"kept only on a VF"}
	if have := parseText(t, text).Warnings(); !slices.Equal(have, want) {
		t.Errorf("%q", have)
	}
	want = []string{"sluice.yaml:2:18: vms[0].guarantee: on virtio 5kpps are not kept while nothing says how many the host carries; " +
		"set bandwidth.packets"}
	if have := parseText(t, "pfs: [{name: a, vfs: all}]\nvms: [{match: a, guarantee: 1Gbit 5kpps}]\n").Warnings(); !slices.Equal(have, want) {
		t.Errorf("%q", have)
	}
}

// Warnings about what the allocator ignores.
func TestWhatTheAllocatorIgnores(t *testing.T) {
	known := Known{Allocators: map[string]model.AllocatorInfo{
		"all": {Bits: true, Packets: true, Weights: true}, "bits": {Bits: true, Minimums: true}, "shares": {Weights: true}, "nothing": {},
	}}
	for _, tc := range []struct{ allocator, text, want string }{
		{"nothing", "vms: [{match: a, guarantee: 1Gbit 5kpps}]", "s:2:18: vms[0].guarantee of 1Gbit 5kpps is not kept under nothing, " +
			"which ignores guarantees; choose all or bits, or leave it out"},
		{"shares", "classes: [{name: a, guarantee: 1Gbit}]", "s:2:21: classes[0].guarantee of 1Gbit is not kept under shares, " +
			"which ignores guarantees; choose all or bits, or leave it out"},
		{"bits", "vms: [{match: a, guarantee: 1Gbit 5kpps}]", "s:2:18: vms[0].guarantee: 5kpps are not kept on virtio under bits, " +
			"which divides no packets; choose all, or leave them out"},
		{"shares", "vms: [{match: a, guarantee: 5kpps}]", "s:2:18: vms[0].guarantee: 5kpps are not kept on virtio under shares, " +
			"which divides no packets; choose all, or leave them out"},
		{"bits", "vms: [{match: a, weight: 2}]", "s:2:18: vms[0].weight counts only for the assignment of VFs, since bits shares no link by " +
			"weight; choose all or shares to share links by it too"},
		{"bits", "classes: [{name: a, weight: 2}]", "s:2:21: classes[0].weight counts only for the assignment of VFs, since bits shares no " +
			"link by weight; choose all or shares to share links by it too"},
		{"bits", "vms: [{match: a, sla_nic: n, weight: 2}]", "s:2:30: vms[0].weight has no effect, since bits shares no link by weight; " +
			"choose all or shares to share links by it too"},
		{"all", "classes: [{name: a, minimum: 1Gbit}]", "s:2:21: classes[0].minimum has no effect under all; choose bits, or leave it out"},
		{"all", "vms: [{match: a, guarantee: 1Gbit, weight: 2}]", ""},
		{"bits", "vms: [{match: a, guarantee: 1Gbit}]\nclasses: [{name: a, minimum: 1Gbit}]", ""},
		{"shares", "vms: [{match: a, weight: 2, limit: 1Gbit 5kpps}]", ""},
		{"nothing, enabled: false", "vms: [{match: a, weight: 2}, {match: b, guarantee: 1Gbit 5kpps}]", "s:2:30: vms[1] asks " +
			"for bandwidth, but bandwidth.enabled is false, so that no guarantee or limit is kept; set it to true"},
		{"all, enabled: false", "classes: [{name: a, weight: 2}, {name: b, receive: 1Gbit}]", "s:2:33: classes[1] asks for bandwidth, but " +
			"bandwidth.enabled is false, so that no guarantee or limit is kept; set it to true"},
		{"all, enabled: false", "vms: [{match: a, weight: 2}]\nclasses: [{name: a, weight: 2}]", ""},
	} {
		text := "pfs: [{name: a, vfs: all}]\n" + tc.text + "\nbandwidth: {allocator: " + tc.allocator + "}\n"
		c, err := parse([]Document{{Name: "s", Data: []byte(text)}}, known, nil)
		if err != nil {
			t.Fatal(err)
		}
		if have := strings.Join(c.Warnings(), "\n"); have != tc.want {
			t.Errorf("%s, %s:\nwant %s\nhave %s", tc.allocator, tc.text, tc.want, have)
		}
	}
}

// Warnings about rates that have no effect because an earlier rule matches the same VM; equal values are not reported.
func TestRulesThatClash(t *testing.T) {
	for _, tc := range []struct{ vms, want string }{
		{
			"[{match: 'db-*', guarantee: 1Gbit}, {match: db-1, guarantee: 2Gbit}]",
			`sluice.yaml:2:56: vms[1].guarantee of "db-1" has no effect, since the rule for "db-*" sets it first, at sluice.yaml:2:23; put the ` +
				`specific rule before the general one`,
		},
		{
			"[{match: db, limit: 1Gbit}, {match: db, sla_nic: net1, limit: 2Gbit}]",
			`sluice.yaml:2:61: vms[1].limit of "db" has no effect, since the rule for "db" sets it first, at sluice.yaml:2:19; put the specific ` +
				`rule before the general one`,
		},
		{"[{match: db, sla_nic: net1, limit: 2Gbit}, {match: db, limit: 1Gbit}]", ""},
		{"[{match: db, sla_nic: net1, limit: 2Gbit}, {match: db, sla_nic: net2, limit: 1Gbit}]", ""},
		{"[{match: 'db-*', guarantee: 1Gbit}, {match: db-1, guarantee: 1Gbit, limit: 4Gbit}]", ""},
		{"[{match: 'db-*', guarantee: 1Gbit}, {match: db-1, guarantee: 5kpps}]\nbandwidth: {packets: 800kpps}", ""},
		{"[{match: 'db-*', guarantee: 1Gbit}, {match: '*', guarantee: 2Gbit}]", ""},
	} {
		if have := strings.Join(parseText(t, "pfs: [{name: a, vfs: all}]\nvms: "+tc.vms+"\n").Warnings(), "\n"); have != tc.want {
			t.Errorf("%s\nwant %s\nhave %s", tc.vms, tc.want, have)
		}
	}
}

func TestAfterRestart(t *testing.T) {
	was := parseText(t, "policy: fair\nlog: {format: json}\n")
	now := parseText(t, "policy: none\nsample: 2s\nguest_agent: {every: 9s}\nlog: {level: debug, format: json}\npfs: [{name: a, vfs: all}]\n")
	if diff := cmp.Diff([]string{"sample", "guest_agent.every"}, now.AfterRestart(was)); diff != "" {
		t.Error(diff)
	}
}

func TestPackagedFileIsTheDefaults(t *testing.T) {
	c, err := Load("../../packaging/sluice.yaml", Known{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), c, ignorePlaces, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("packaging/sluice.yaml shows other values than the defaults:\n%s", diff)
	}
}

// The commented examples must load too.
func TestPackagedExamplesLoad(t *testing.T) {
	data, err := os.ReadFile("../../packaging/sluice.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("pfs: []", "pfs:", "vms: []", "vms:", "classes: []", "classes:", "guests: []", "guests:", "\n#  ",
		"\n  ").Replace(string(data))
	c := parseText(t, text)
	if len(c.PFs) != 1 || len(c.VMs) != 5 || len(c.Classes) != 1 || c.VMs[3].Limit.Packets != 2e5 || c.VMs[4].SLANIC == "" ||
		c.Classes[0].Limit.Bits != 5e9 {
		t.Errorf("examples not read: %+v", c)
	}
	sameWhenPrinted(t, c)
	if g := c.VirtualPFs.Guests; len(g) != 2 || !g[1].Refuse {
		t.Errorf("examples of rules for guests not read: %+v", g)
	}
}

// Some editors put a byte order mark before UTF-8 text; it is not part of the first key.
func TestByteOrderMarkIsNoKey(t *testing.T) {
	if c := parseText(t, "\ufeffmode: enforce\n"); c.Mode != model.ModeEnforce {
		t.Errorf("mode %q", c.Mode)
	}
}

// Reading a pipe without a writer would block forever.
func TestPipeIsNoConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := Load(path, Known{})
		failed <- err
	}()
	select {
	case err := <-failed:
		if err == nil || !strings.Contains(err.Error(), "is a pipe, not a regular file") {
			t.Errorf("error %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("still waiting")
	}
}

// A client that only needs the socket finds it, whatever else the files contain.
func TestSocket(t *testing.T) {
	usual := Default().API.Socket
	for name, c := range map[string]struct {
		file, fragment, want string // "": no such file
	}{
		"no file":                {want: usual},
		"it says nothing":        {file: "mode: enforce\n", want: usual},
		"in the file":            {file: "api: {socket: /run/a.sock}\n", want: "/run/a.sock"},
		"in a fragment":          {file: "mode: enforce\n", fragment: "api:\n  socket: /run/b.sock\n", want: "/run/b.sock"},
		"only in a fragment":     {fragment: "api: {socket: /run/b.sock}\n", want: "/run/b.sock"},
		"other keys are unknown": {file: "new: 1\npfs: 7\napi: {novel: x, socket: /run/a.sock}\n", want: "/run/a.sock"},
		"no YAML":                {file: "api: {socket: /run/a.sock\n", fragment: "mode: enforce\n", want: usual},
		"no YAML beside":         {file: "api: {socket: /run/a.sock}\n", fragment: "vms: [\n", want: "/run/a.sock"},
		"a relative path":        {file: "api: {socket: a.sock}\n", want: usual},
		"no text":                {file: "api: {socket: [1]}\n", want: usual},
	} {
		files := map[string]string{"sluice.yaml": c.file, "conf.d/10-x.yaml": c.fragment}
		maps.DeleteFunc(files, func(_, text string) bool { return text == "" })
		if got := Socket(write(t, files)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
