package cli_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/api/v1"
	"sluice/internal/config"
	"sluice/internal/control/bandwidth"
	"sluice/internal/control/doctor"
	"sluice/internal/control/placement"
	"sluice/internal/edge/answer"
	"sluice/internal/edge/cli"
	"sluice/internal/edge/edgetest"
	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
	"sluice/internal/edge/server"
	"sluice/internal/model"
	"sluice/internal/tests/golden"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"sluice": func() {
			os.Exit(cli.Main(context.Background(), os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, fakeDeps()))
		},
		"sluiced": func() { os.Exit(fakeDaemon(os.Args[1:])) },
	})
}

// faultyPlatform is a host with faults among what is right.
func faultyPlatform() *doctor.Platform {
	return &doctor.Platform{
		Kernel: "6.12.0", IOMMUGroups: 40, VFIO: true, Bridges: []string{"br0"},
		PFs: []model.PF{{
			Name: "pf0", Driver: "igb", Eswitch: model.EswitchLegacy, Managed: true, NumVFs: 7, TotalVFs: 7,
			Caps: model.Caps{MaxTxRate: model.No, MinTxRate: model.No, VFCounters: model.Yes},
		}},
		ConfigFile: "sluice.yaml", Config: "1 PF, 0 rules", LibvirtURI: "qemu:///system", Libvirt: errors.New("not connected"),
	}
}

// fakeDaemon prints how it was started, and answers --offline.
func fakeDaemon(args []string) int {
	switch {
	case slices.Contains(args, "broken.yaml"):
		fmt.Fprintln(os.Stderr, "sluiced: broken.yaml:1:1: unknown key")
		return cli.ExitError
	case slices.Contains(args, "--qualify") && slices.Contains(args, "pf7"):
		fmt.Print(qualified)
	case slices.Contains(args, "--qualify") && slices.Contains(args, "pf8"):
		fmt.Fprintln(os.Stderr, strings.Join(args, " "))
		fmt.Print(filled)
	case slices.Contains(args, "--qualify"):
		fmt.Fprint(os.Stderr, "looking at the PF\nsluiced: qualify needs root\nand sluiced: is named elsewhere\n")
		return cli.ExitError
	case args[0] == "--version":
		fmt.Println("sluiced", cmp.Or(os.Getenv("SLUICED_VERSION"), "1.2.3"))
	case args[0] == "--doctor":
		if err := json.NewEncoder(os.Stdout).Encode(answer.Checklist(doctor.Checklist(faultyPlatform()))); err != nil {
			return cli.ExitError
		}
	case args[0] == "--offline":
		if err := json.NewEncoder(os.Stdout).Encode(answer.NewOffline(edgetest.View())); err != nil {
			return cli.ExitError
		}
	case args[0] == "--prepare":
		var asked api.Prepare
		err := json.NewDecoder(os.Stdin).Decode(&asked)
		var list []api.Prepared
		if err == nil {
			list, err = (&edgetest.Preparer{}).Prepare(context.Background(), asked)
		}
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(list)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "sluiced:", err)
			return cli.ExitError
		}
	default:
		fmt.Println("sluiced", strings.Join(args, " "))
	}
	return cli.ExitOK
}

// qualified is a report with one size for which the CPU time of the VF was not measured.
const qualified = `{"pf": "pf7", "scratch": "spare", "hardware": {"device": "8086:10c9", "driver": "igb"},
 "paths": [{"size": 64, "virtio": {"median_seconds": 0.001, "host_cpu_seconds_per_packet": 0.0000154},
   "vf": {"median_seconds": 0.0005, "host_cpu_seconds_per_packet": 0.00000004}, "boost_percent": 50},
  {"size": 512, "virtio": {"median_seconds": 0.001, "host_cpu_seconds_per_packet": 0.000016},
   "vf": {"median_seconds": 0.0005}, "boost_percent": 50}],
 "boosts": [{"payload": 16, "background_packets_per_second": 0, "boost_percent": 10.2},
  {"payload": 16, "background_packets_per_second": 20000, "boost_percent": 21.8},
  {"payload": 16, "background_packets_per_second": 80000, "boost_percent": 71, "full": true},
  {"payload": 1472, "background_packets_per_second": 0, "boost_percent": 9.7}],
 "boost": {"percent_at_rest": 9.95, "percent_per_1000_packets_per_second": 0.59, "most_percent": 21.8, "vf_packet_seconds": 0.00003},
 "host_cpu": {"seconds_per_packet": 0.00000153, "seconds_per_kilobyte": 0.00000025}}
`

// filled is a report of a link that was filled in two ways, and of VFs that gain less at higher rates.
const filled = `{"pf": "pf8", "hardware": {"device": "8086:10c9", "driver": "igb"}, "capacity": [
 {"peer": "192.0.2.7:9179", "vlan": 0, "bits_per_second": 9410000000, "measured": "yes", "evidence": "9.4Gbit with 2 connections"},
 {"peer": "198.51.100.7:9179", "vlan": 20, "bits_per_second": 3000000000, "measured": "unknown", "evidence": "hosts limit it"}],
 "boosts": [{"payload": 16, "background_packets_per_second": 0, "boost_percent": 39.281},
  {"payload": 16, "background_packets_per_second": 1000, "boost_percent": -80.419}],
 "boost": {"percent_at_rest": 39.281, "percent_per_1000_packets_per_second": -119.7, "most_percent": 78, "vf_packet_seconds": 0.00003}}
`

// fakeDeps replaces the dependencies that main passes in.
func fakeDeps() cli.Deps {
	return cli.Deps{
		Version: "1.2.3",
		Demo: func(_ context.Context, o cli.DemoOptions) error {
			v := edgetest.View()
			o.Show(v)
			later := *v
			snap := *v.Snapshot
			snap.Time = snap.Time.Add(o.For)
			later.Snapshot = &snap
			o.Show(&later)
			return nil
		},
		Known: config.Known{Policies: placement.Policies(), Allocators: bandwidth.Allocators()},
		Ledger: func(_ context.Context, at string) (fleet.Ledger, error) {
			if at == "nowhere" {
				return nil, errors.New("Placement does not answer")
			}
			return fleettest.Example(), nil
		},
	}
}

// The command line end to end: real process, real socket, made-up daemon.
func TestScripts(t *testing.T) {
	if os.Getenv("SLUICE_TEST_NO_ROOT") == "1" {
		t.Skip("SLUICE_TEST_NO_ROOT=1: commands that change things need root")
	}
	program, err := exec.LookPath("sluice")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		Setup:         func(e *testscript.Env) error { e.Setenv("SLUICE", program); return nil },
		UpdateScripts: *golden.Update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"daemon":   startDaemon,
			"commands": showCommands,
			"exit":     wantExit,
		},
		Deadline: time.Now().Add(10 * time.Minute), // for all scripts together, on a busy machine
	})
}

// startDaemon is `daemon [KIND]`: a daemon on s.sock until the script ends. KIND is a case below, vpf, "whatif", "whatif slow" or
// forgetful.
func startDaemon(ts *testscript.TestScript, _ bool, args []string) {
	v := edgetest.View()
	b := edgetest.NewBackend(v)
	switch strings.Join(args, "") {
	case "observe":
		v.Mode = model.ModeObserve
	case "empty":
		b = edgetest.NewBackend(nil)
	case "troubled":
		v.Errors = []string{
			"no answer from libvirt",
			"the configuration is unchanged: a.yaml:1:1: unknown key \"x\"\na.yaml:2:1: unknown key \"y\"",
		}
	case "healthy":
		v.Findings, v.Snapshot.Problems, v.Overrides, v.Bandwidth = nil, nil, nil, nil
		v.Target.Reasons[1].Code = model.CodeOutranked // nobody waits after a failed move
	case "worth": // as the policy would have set it
		v.Rules.VMs = append(v.Rules.VMs, model.VMRule{Match: "web-10", Sensitivity: model.SensitivityHigh})
		v.Target.Reasons[6].Worth = 2
		v.Target.Reasons[7].Worth, v.Target.Reasons[7].Score = 7.5, 600000
	case "learned":
		known := model.Bursts{High: 48.2, Low: 109.7, Seen: 20}
		v.Target.Reasons[6].Bursts = known
		nic := v.Snapshot.VMs[7].NICs[0]
		nic.Alias = "ua-net1"
		v.Snapshot.VMs[7].NICs = append(v.Snapshot.VMs[7].NICs, nic)
		v.Target.Reasons[7].NIC = "ua-net0"
		for _, alias := range []string{"ua-net0", "ua-net1"} {
			r := v.Target.Reasons[7]
			r.NIC, r.Bursts = alias, known
			v.Target.NICs = append(v.Target.NICs, r)
			known = model.Bursts{}
		}
	case "refuse":
		b.Fail(&api.Error{Text: "legacy has no failover", Remedy: "add <teaming> to its interface"})
	case "repairs":
		v.Findings = append(v.Findings, model.Finding{
			Code: "stale-vlan", Subject: "pf1/0", Text: "has VLAN 7",
			Repair: []model.Step{{Kind: model.StepClearVF}},
		})
		b.After = repaired
	case "sla":
		set := model.Override{
			Kind: model.OverrideSLA, VM: edgetest.ID(3), VMName: "db", By: "bob", UID: 1001, At: edgetest.Now.Add(-time.Minute),
			Until: edgetest.Now.Add(time.Hour), Reason: "nightly copy", NIC: "ua-net*",
			SLA: model.SLA{Guarantee: model.Rate{Bits: 4e9, Packets: 2e5}, Weight: 2},
		}
		v.Overrides = append(v.Overrides, set)
		v.Rules.VMs = append([]model.VMRule{set.Rule()}, v.Rules.VMs...)
		v.Rules.VMs = append(v.Rules.VMs, model.VMRule{
			Match: "web-2",
			SLA:   model.SLA{Receive: model.Rate{Bits: 1e9}, Source: "sluice.yaml:12:5"},
		})
		v.Rules.Classes = []model.Class{{
			Name: "gold", Priority: 9,
			SLA: model.SLA{Limit: model.Rate{Bits: 8e9}, Source: "class gold, sluice.yaml:30:3"},
		}}
		v.Snapshot.VMs[6].SLAs = []model.NICSLA{{SLA: model.SLA{Guarantee: model.Rate{Bits: 2e9}, Source: "metadata"}}}
		v.Bandwidth.NICs[2].Promised.Bits = 1e9
	case "info":
		v.Totals.Repairs = 2
		info := model.Problem{Subject: "pf9", Text: "its VFs are not in the pool", Info: true}
		v.Snapshot.Problems = append([]model.Problem{info}, v.Snapshot.Problems...)
	case "drained":
		b = edgetest.NewBackend(drained())
	}
	var past server.History
	if slices.Contains(args, "events") {
		past = happened{}
	}
	s, err := server.New(server.Options{
		History: past, Backend: b, Version: "1.2.3", Socket: filepath.Join(ts.Getenv("WORK"), "s.sock"),
		Now: func() time.Time { return edgetest.Now }, Stale: time.Minute, VirtualPFs: vpfs(strings.Join(args, "")),
		Preparer: &edgetest.Preparer{},
		WhatIf:   &tried{ready: slices.Contains(args, "whatif"), slow: slices.Contains(args, "slow")},
		Incoming: arrive,
	})
	ts.Check(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	ts.Defer(func() {
		cancel()
		if err := <-done; err != nil {
			ts.Logf("daemon: %v", err)
		}
	})
	backends.Store(ts.Getenv("WORK"), b)
}

// happened has the events of an evening.
type happened struct{}

// History implements server.History.
func (happened) History(answer.HistoryQuery) api.History { return api.History{} }

// Events implements server.History.
func (happened) Events(q answer.EventsQuery) api.Events {
	at := edgetest.Now.Add(-time.Hour)
	down := model.Cause{Kind: model.CauseLinkDown, PF: "pf1"}
	list := []model.Event{
		{ID: 1, At: at, Kind: model.EventLink, Text: down.String(), Alarm: true, Cause: down},
		{ID: 2, At: at.Add(time.Second), Kind: model.EventUnplug, VM: edgetest.ID(8), VMName: "web-10", VF: model.VFID{PF: "pf1"}, Cause: down},
	}
	for i := range 10 {
		list = append(list, model.Event{
			ID: uint64(3 + i), At: at.Add(2 * time.Second), Kind: model.EventUnplug, VM: model.VMID(fmt.Sprint(i)), //nolint:gosec // few
			VMName: fmt.Sprintf("db-%d\x1b[2J", i), Cause: down,
		})
	}
	list = append(list, model.Event{
		ID: 13, At: at.Add(time.Minute), Kind: model.EventShort, Alarm: true, Text: "ci gets 1Gbit/s of the 2Gbit/s it is promised",
		About: []model.Party{{VM: "id of ci", VMName: "ci"}},
	})
	out := answer.Events(list, q)
	out.Now = at.Add(time.Hour)
	return out
}

// tried is a WhatIf whose result is known at the second request.
type tried struct {
	ready bool
	slow  bool
	asked atomic.Int32
}

// WhatIf implements server.WhatIf.
func (w *tried) WhatIf(*model.View) api.WhatIf {
	asked := w.asked.Add(1)
	switch {
	case asked == 1 || w.slow && asked < 10: // asked five times a second at most
		return api.WhatIf{Current: "fair", Running: true}
	case !w.ready:
		return api.WhatIf{Current: "fair", Error: "less than a minute has been recorded so far", Remedy: "try again in a minute"}
	}
	return api.WhatIf{
		From: edgetest.Now.Add(-time.Hour), To: edgetest.Now, Computed: edgetest.Now, Current: "fair",
		Policies: []api.PolicyResult{{Policy: "adaptive", Net: 0.71, Gross: 0.75, Moves: 12}, {Policy: "fair", Net: 0.4, Gross: 0.6, Moves: 96}},
	}
}

// arrive gives each NIC of a VM that migrates in a VF; only two are available.
func arrive(_ context.Context, vm model.Subject, nics []model.NIC) (out []model.VFStep, _ error) {
	if len(nics) > 2 || vm.VM == "" {
		return nil, fmt.Errorf("no VF is free here for %s", vm.VMName)
	}
	for i, n := range nics {
		out = append(out, model.VFStep{
			ID: model.VFID{PF: "pf0", Index: i}, MAC: n.MAC,
			Address: model.PCIAddress(fmt.Sprintf("0000:81:10.%d", i)),
		})
	}
	return out, nil
}

// vpfs are the virtual PFs of `daemon vpf`; other daemons have no controller of virtual PFs.
func vpfs(kind string) server.VirtualPFs {
	if kind != "vpf" {
		return nil
	}
	return &edgetest.VirtualPFs{}
}

// backends maps a script's directory to its daemon, a *edgetest.Backend; scripts run in parallel.
var backends sync.Map

// repaired returns the View after a repair: one finding is gone, the repair of another failed.
func repaired(_ server.Command, v *model.View) *model.View {
	next := *v
	next.Revision += 10
	next.Findings = v.Findings[1:]
	next.Recent = append([]model.MoveStatus{{
		Move:  model.Move{Kind: model.MoveRepair, Reason: model.Reason{Code: model.CodeRepair, Detail: v.Findings[2].Name()}},
		Ended: edgetest.Now, Error: "set-vf: device busy",
	}}, v.Recent...)
	return &next
}

func drained() *model.View {
	v := edgetest.View()
	v.Active, v.Rules.Drain = nil, true
	for i := range v.Snapshot.PFs[0].VFs {
		v.Snapshot.PFs[0].VFs[i].Owner = model.OwnerFree
	}
	return v
}

// showCommands prints the commands that the daemon received, without the user: the pid differs.
func showCommands(ts *testscript.TestScript, _ bool, _ []string) {
	b, _ := backends.Load(ts.Getenv("WORK"))
	for _, c := range b.(*edgetest.Backend).Got() {
		c.User = ""
		data, err := json.Marshal(c)
		ts.Check(err)
		_, err = fmt.Fprintln(ts.Stdout(), string(data))
		ts.Check(err)
	}
}

// wantExit is `exit CODE COMMAND...`: the command must end with that code.
func wantExit(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	have := 0
	var exit interface{ ExitCode() int }
	switch {
	case errors.As(err, &exit):
		have = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(have) != args[0] {
		ts.Fatalf("exit code %d, want %s", have, args[0])
	}
}
