package daemon

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/api/v1"
	"sluice/internal/config"
	"sluice/internal/control/placement"
	"sluice/internal/edge/client"
	"sluice/internal/host/kernel"
	"sluice/internal/host/qualify"
	"sluice/internal/model"
)

func TestReportIsKept(t *testing.T) {
	dir := t.TempDir()
	if q, err := readReport(dir, "pf0"); q != nil || err != nil {
		t.Errorf("%v, %v, want none", q, err)
	}
	if err := saveReport(dir, &api.Qualification{PF: "pf0", Scratch: "vm"}); err != nil {
		t.Fatal(err)
	}
	if q, err := readReport(dir, "pf0"); err != nil || q.Scratch != "vm" {
		t.Errorf("%+v, %v", q, err)
	}
	if err := os.Rename(reportPath(dir, "pf0"), reportPath(dir, "pf1")); err != nil {
		t.Fatal(err)
	}
	if _, err := readReport(dir, "pf1"); err == nil || !strings.Contains(err.Error(), `about PF "pf0"`) {
		t.Errorf("%v: a report about another PF counts", err)
	}
}

// What a kept report says a link carries becomes that PF's capacity, and no other's.
func TestReportedCapacity(t *testing.T) {
	dir := t.TempDir()
	if err := saveReport(dir, &api.Qualification{
		PF: "pf0", Hardware: api.QualifiedHardware{Speed: 10e9}, Capacity: []api.LinkCapacity{{VLAN: 20, Bits: 9.4e9, Measured: "yes"}},
	}); err != nil {
		t.Fatal(err)
	}
	q, err := readReport(dir, "pf0")
	if err != nil {
		t.Fatal(err)
	}
	h := &host{}
	h.reports.Store(&reports{facts: map[string]qualify.Facts{"pf0": qualify.FactsOf(q)}})
	for name, want := range map[string]model.Capacity{
		"pf0": {Bits: 9.4e9, Speed: 10e9, Source: model.CapacityQualified, Detail: "with VLAN 20"},
		"pf1": {Bits: 10e9, Speed: 10e9, Source: model.CapacityDriver},
	} {
		pf := model.PF{Name: name, Speed: 10e9}
		if h.measured(&pf); pf.Capacity() != want {
			t.Errorf("%s: %+v, want %+v", name, pf.Capacity(), want)
		}
	}
}

// Measured values are used if sluice.yaml has none and the policy has the parameter.
func TestMeasuredRules(t *testing.T) {
	reports := []api.Qualification{{Moves: &api.MoveCost{Moves: 4, LostMean: 0.2}}}
	known := placement.Policies()["adaptive"].Params
	said := model.Rules{Params: model.Params{"lost_s": 0.1, "margin": 0.2}}
	if got := measuredRules(said, reports, known).Params["lost_s"]; got != 0.1 {
		t.Errorf("lost_s is %v, and sluice.yaml says 0.1", got)
	}
	silent := model.Rules{Params: model.Params{"margin": 0.2}}
	got := measuredRules(silent, reports, known)
	if got.Params["lost_s"] != 0.2 || got.Params["margin"] != 0.2 {
		t.Errorf("params %v, want what was measured", got.Params)
	}
	if _, changed := silent.Params["lost_s"]; changed {
		t.Error("the config's own params were changed")
	}
	if got := measuredRules(model.Rules{}, reports, placement.Policies()["none"].Params); got.Params != nil {
		t.Errorf("policy none got %v", got.Params)
	}
	if got := measuredRules(model.Rules{}, nil, known); got.Params != nil {
		t.Errorf("without a report: %v", got.Params)
	}
}

// The measured cost of virtio is used if sluice.yaml enables it and sets no other.
func TestMeasuredWorth(t *testing.T) {
	reports := []api.Qualification{{HostCPU: &api.PacketCPU{Packet: 2e-6, Kilobyte: 3e-7}}}
	measured, said := model.PacketCost{Packet: 2000, Kilobyte: 300}, model.PacketCost{Packet: 700, Kilobyte: 9}
	for _, c := range []struct {
		name    string
		worth   config.Worth
		reports []api.Qualification
		want    model.PacketCost
		problem string
	}{
		{name: "nothing said", reports: reports},
		{name: "asked for", worth: config.Worth{CPU: true}, reports: reports, want: measured},
		{name: "said", worth: config.Worth{CPU: true, PacketCPU: 700, KilobyteCPU: 9}, reports: reports, want: said},
		{name: "said without a report", worth: config.Worth{CPU: true, PacketCPU: 700, KilobyteCPU: 9}, want: said},
		{name: "not measured", worth: config.Worth{CPU: true}, reports: []api.Qualification{{}}, problem: "nobody has measured"},
		{
			name: "no dearer when large", worth: config.Worth{CPU: true}, reports: []api.Qualification{{HostCPU: &api.PacketCPU{Packet: 2e-6}}},
			want: model.PacketCost{Packet: 2000}, problem: "no more than small ones, 2µs each",
		},
		{
			name: "no dearer, it is said", worth: config.Worth{CPU: true, PacketCPU: 700}, reports: reports, want: model.PacketCost{Packet: 700},
			problem: "700ns each",
		},
	} {
		conf := config.Default()
		conf.Worth = c.worth
		got := measuredRules(conf.Rules(), c.reports, nil).Worth
		if got.Cost != c.want || got.CPU != c.worth.CPU {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		p := worthProblems(&conf.Worth, c.reports)
		if len(p) > 0 != (c.problem != "") || len(p) > 0 && (!p[0].Info || p[0].Remedy == "" || !strings.Contains(p[0].Text, c.problem)) {
			t.Errorf("%s: doctor says %+v", c.name, p)
		}
	}
}

// The CPU cost of the VM's threads is measured on the running kernel; this process stands in for QEMU.
func TestCostOfThreads(t *testing.T) {
	k, err := kernel.New(kernel.Options{BPFFS: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	s := &scratch{kernel: k, qemu: os.Getpid()}
	const busy = 100 * time.Millisecond
	cpu, why := s.cost(t.Context(), func() {
		for begin := timeTaken(t); timeTaken(t)-begin < busy; {
			runtime.Gosched()
		}
	})
	if why != "" || cpu < busy/2 { // the scheduler counts at its ticks
		t.Errorf("%s, %q, of %s", cpu, why, busy)
	}
	done := false
	for want, s := range map[string]*scratch{"no tap": {kernel: k, noQEMU: "no tap"}, "read the CPU time": {kernel: k, qemu: 1 << 30}} {
		if cpu, why := s.cost(t.Context(), func() { done = true }); cpu != 0 || !strings.Contains(why, want) || !done {
			t.Errorf("%s, %q, want why it is not known, and the packets sent: %v", cpu, why, done)
		}
		done = false
	}
}

// timeTaken returns the CPU time that this process has used.
func timeTaken(t *testing.T) time.Duration {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}

func TestAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "qualify-1.json")
	a := reservedVFs{path: path, log: slog.New(slog.DiscardHandler)}
	if a.look() != nil || len(a.findings()) > 0 || len(a.problems()) > 0 {
		t.Error("something is set aside by nobody")
	}
	text := `{"version":1,"pf":"pf0","vfs":[{"id":{"pf":"pf0","index":6}}],"filters":"02:51:00:00:00:00"}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]string{5: "", 6: model.SetAside} {
		for _, owner := range []model.Owner{model.OwnerFree, model.OwnerForeign} {
			if got := a.look()(&model.VF{ID: model.VFID{PF: "pf0", Index: i}, Owner: owner}); got != want {
				t.Errorf("VF %d, %s: %q, want %q", i, owner, got, want)
			}
		}
	}
	if p := a.problems(); len(p) > 0 {
		t.Errorf("the journal can be read: %+v", p)
	}
	if f := a.findings(); len(f) != 1 || f[0].Code != findLeftQualify || f[0].Remedy == "" {
		t.Errorf("nobody is at work, findings %+v", f)
	}
}

// While the journal cannot be read, every free VF may be set aside, and doctor says so, until the journal can be read or is gone.
func TestAsideUnreadable(t *testing.T) {
	for name, text := range map[string]string{"no JSON": `{"version":1,"pf`, "a later version": `{"version":99}`, "empty": ""} {
		var log strings.Builder
		h := &host{reserved: reservedVFs{path: filepath.Join(t.TempDir(), "qualify-1.json"), log: slog.New(slog.NewTextHandler(&log, nil))}}
		h.reports.Store(&reports{})
		a := &h.reserved
		if err := os.WriteFile(a.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			look := a.look()
			if look == nil {
				t.Fatalf("%s: VFs may be given out", name)
			}
			for owner, want := range map[model.Owner]string{model.OwnerFree: model.PerhapsAside, model.OwnerForeign: ""} {
				if got := look(&model.VF{Owner: owner}); got != want {
					t.Errorf("%s: %s VF: %q, want %q", name, owner, got, want)
				}
			}
		}
		if n := strings.Count(log.String(), a.path); n != 1 {
			t.Errorf("%s: logged %d times: %s", name, n, log.String())
		}
		told := func(p model.Problem) bool {
			return strings.Contains(p.Text, a.path) && strings.Contains(p.Remedy, "rm "+a.path) && !p.Info
		}
		if p := h.examine(&model.Snapshot{}); !slices.ContainsFunc(p, told) {
			t.Errorf("%s: doctor says %+v", name, p)
		}
		if err := os.Remove(a.path); err != nil {
			t.Fatal(err)
		}
		if a.look() != nil || slices.ContainsFunc(h.examine(&model.Snapshot{}), told) {
			t.Errorf("%s: VFs stay set aside when the journal is gone", name)
		}
	}
}

// VFs count as set aside when the daemon shows them so, and neither holds nor moves any of them.
func TestAsideSeen(t *testing.T) {
	id := model.VFID{PF: "pf0", Index: 6}
	vf := func(owner, why, holder string) string {
		return `[{"pf":"pf0","vf":6,"owner":"` + owner + `","owner_why":"` + why + `","domain":"` + holder + `"}]`
	}
	idle, busy := `{"active":[{"vf":"pf0/1"}]}`, `{"active":[{"vf":"pf0/6"}]}`
	for name, c := range map[string]struct {
		vfs, plan string
		want      bool
	}{
		"set aside":           {vf("foreign", model.SetAside, ""), idle, true},
		"not yet":             {vf("free", "", ""), idle, false},
		"somebody else's":     {vf("foreign", "the host uses it", ""), idle, false},
		"given out meanwhile": {vf("sluice", "", "web"), idle, false},
		"a move under way":    {vf("foreign", model.SetAside, ""), busy, false},
		"gone":                {`[]`, idle, false},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("GET /v1/vfs", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(c.vfs)) })
			mux.HandleFunc("GET /v1/plan", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(c.plan)) })
			if err := asideSeen(t.Context(), serveUnix(t, mux), []model.VFID{id}); (err == nil) != c.want {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

func TestAddressOf(t *testing.T) {
	if at, err := addressOf("192.0.2.7", ""); err != nil || at.String() != "192.0.2.7" {
		t.Errorf("%v, %v", at, err)
	}
	if _, err := addressOf("", "02:00:00:00:77:77"); err == nil || !strings.Contains(err.Error(), "--address") {
		t.Error(err)
	}
}

// serveUnix serves on a unix socket.
func serveUnix(t *testing.T, h http.Handler) *client.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return client.New(path)
}
