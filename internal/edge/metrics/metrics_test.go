package metrics_test

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sluice/internal/edge/edgetest"
	"sluice/internal/edge/metrics"
	"sluice/internal/model"
	"sluice/internal/tests/golden"
)

func options() metrics.Options {
	return metrics.Options{Version: "1.2.3", Now: func() time.Time { return edgetest.Now.Add(time.Second) }, Stale: 10 * time.Second}
}

func text(v *model.View) string { return string(metrics.Text(v, options())) }

func TestMetricsGolden(t *testing.T) {
	golden.File(t, "testdata/metrics.txt", text(edgetest.View()))
}

func TestPromtoolAccepts(t *testing.T) {
	if os.Getenv("SLUICE_TEST_NO_PROMTOOL") == "1" {
		t.Skip("SLUICE_TEST_NO_PROMTOOL=1")
	}
	o := options()
	o.Process = true
	promtool(t, string(metrics.Text(edgetest.View(), o)))
}

// promtool parses the text as Prometheus would, and lints it.
func promtool(t *testing.T, text string) {
	t.Helper()
	if os.Getenv("SLUICE_TEST_NO_PROMTOOL") == "1" {
		return
	}
	cmd := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("promtool check metrics (package prometheus): %v\n%s", err, &out)
	}
}

func TestVMsThatLeaveTakeTheirSeries(t *testing.T) {
	v := edgetest.View()
	if s := text(v); !strings.Contains(s, `domain="db"`) || !strings.Contains(s, string(edgetest.ID(3))) {
		t.Fatal("db has no series at all")
	}
	w := *v
	snap := *v.Snapshot
	snap.VMs = append(append([]model.VM(nil), snap.VMs[:2]...), snap.VMs[3:]...)
	w.Snapshot = &snap
	if s := text(&w); strings.Contains(s, `domain="db"`) || strings.Contains(s, string(edgetest.ID(3))) {
		t.Error("series of db stay")
	}
}

// A counter of what is dropped begins with the policer, so that the first drops count as an increase; a limit in bits/s counts none.
func TestDropsOfVFs(t *testing.T) {
	v := edgetest.View()
	for i := range v.Bandwidth.NICs {
		v.Bandwidth.NICs[i].DroppedVF = model.Dropped{}
	}
	const series = `sluice_nic_policed_packets_total{direction="tx",domain="db",path="vf"`
	if s := text(v); strings.Contains(s, series) {
		t.Error("nothing polices the VF")
	}
	for i := range v.Bandwidth.NICs {
		if n := &v.Bandwidth.NICs[i]; n.VMName == "db" {
			n.Enforcer = []model.Enforcement{{Limit: model.Limit{LimitKey: n.Enforcer[0].LimitKey, Rate: model.Rate{Packets: 1e4}}, By: "max_tx_rate"}}
		}
	}
	if s := text(v); !strings.Contains(s, series) {
		t.Error("no counter before the first drop")
	}
}

// What alerts are based on: a guest that exaggerates its load or does not use its VF, a tap without a bridge, a finding, a
// move.
func TestMetricsOfTroubles(t *testing.T) {
	v := edgetest.View()
	web2 := v.Snapshot.FindVM(edgetest.ID(7))
	web2.NICs[0].VFPath.Source, web2.NICs[0].VFPath.Denied = model.SourceAgent, 4e6
	web2.NICs[0].LinkUp = model.No
	v.Snapshot.FindVM(edgetest.ID(3)).NICs[0].LinkUp = model.Unknown
	v.Snapshot.FindVF(web2.NICs[0].VF).InGuest = model.No
	v.Snapshot.FindVF(model.VFID{PF: "pf0", Index: 1}).InGuest = model.Unknown
	v.Findings = []model.Finding{{Code: "stale-route", Subject: "bridge br0"}, {Code: "stale-route", Subject: "bridge br0"}} // two MACs
	s := text(v)
	id := `uuid="` + string(edgetest.ID(7)) + `"`
	for _, want := range []string{
		`nic_denied_packets_per_second{domain="web-2",target_device="vnet7",` + id + `} 4e+06`,
		`nic_virtio_up{domain="web-2",target_device="vnet7",` + id + `} 0`,
		`vf_in_guest{domain="web-2",pf="pf0",` + id + `,vf="0"} 0`,
		`finding_info{code="stale-route",subject="bridge br0"} 1`,
		`findings{code="stale-route"} 2`,
		`move_start_time_seconds{domain="web-10",kind="plug",pf="pf0",uuid="` + string(edgetest.ID(8)) + `",vf="2"} 1.772366398e+09`,
	} {
		if n := strings.Count(s, "\nsluice_"+want+"\n"); n != 1 {
			t.Errorf("%d times: %s", n, want)
		}
	}
	for _, unknown := range []string{`nic_virtio_up{domain="db"`, `vf_in_guest{domain="db"`, `nic_denied_packets_per_second{domain="db"`} {
		if strings.Contains(s, unknown) {
			t.Errorf("has %s, which nobody knows", unknown)
		}
	}
	promtool(t, s)
}

// For any View, the metrics can be scraped and all values are numbers.
func TestOddFiguresDoNotSpoilTheScrape(t *testing.T) {
	v := edgetest.View()
	v.Snapshot.VMs[0].NICs[0].Virtio.RxPPS = math.NaN()
	v.Snapshot.VMs[1].NICs[0].Virtio.TxPPS = math.Inf(1)
	v.Snapshot.VMs[2].Name = "d\xffb\"\n"
	v.Snapshot.VMs[3].NICs = append(v.Snapshot.VMs[3].NICs, v.Snapshot.VMs[3].NICs[0])
	v.Target.Reasons[6].Score = math.NaN()
	s := text(v)
	for _, bad := range []string{"NaN", "Inf", "\xff"} {
		if strings.Contains(s, bad) {
			t.Errorf("has %q", bad)
		}
	}
	if !strings.Contains(s, `domain="legacy"`) || !strings.Contains(s, "d\uFFFDb") {
		t.Error("lacks the other series")
	}
	seen := map[string]bool{}
	for line := range strings.Lines(s) {
		series, _, _ := strings.Cut(line, "} ")
		if seen[series] && !strings.HasPrefix(line, "#") {
			t.Errorf("twice: %s", line)
		}
		seen[series] = true
	}
	promtool(t, s)
}

// Every metric is documented, and the documentation has no others.
func TestMetricsAreDocumented(t *testing.T) {
	golden.Section(t, "../../../docs/metrics.md", "metrics", metrics.Table())
}
