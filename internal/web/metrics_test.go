package web_test

import (
	"bytes"
	"math"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"sluice/internal/golden"
	"sluice/internal/model"
	"sluice/internal/web"
	"sluice/internal/web/webtest"
)

func scrape(t *testing.T, o web.Options) string {
	t.Helper()
	w := ask(t, o, http.MethodGet, "/metrics", "")
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMetricsGolden(t *testing.T) {
	golden.File(t, "testdata/metrics.txt", scrape(t, options(webtest.NewBackend(webtest.View()))))
}

func TestPromtoolAccepts(t *testing.T) {
	if os.Getenv("SLUICE_TEST_NO_PROMTOOL") == "1" {
		t.Skip("SLUICE_TEST_NO_PROMTOOL=1")
	}
	o := options(webtest.NewBackend(webtest.View()))
	o.Process = true
	cmd := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	cmd.Stdin = strings.NewReader(scrape(t, o))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("promtool check metrics (package prometheus): %v\n%s", err, &out)
	}
}

func TestVMsThatLeaveTakeTheirSeries(t *testing.T) {
	v := webtest.View()
	b := webtest.NewBackend(v)
	if s := scrape(t, options(b)); !strings.Contains(s, `domain="db"`) || !strings.Contains(s, string(webtest.ID(3))) {
		t.Fatal("db has no series at all")
	}
	w := *v
	snap := *v.Snapshot
	snap.VMs = append(append([]model.VM(nil), snap.VMs[:2]...), snap.VMs[3:]...)
	w.Snapshot = &snap
	b.Show(&w)
	if s := scrape(t, options(b)); strings.Contains(s, `domain="db"`) || strings.Contains(s, string(webtest.ID(3))) {
		t.Error("series of db stay")
	}
}

// Whatever the View holds, a scrape works and shows numbers only.
func TestOddFiguresDoNotSpoilTheScrape(t *testing.T) {
	v := webtest.View()
	v.Snapshot.VMs[0].NICs[0].Virtio.RxPPS = math.NaN()
	v.Snapshot.VMs[1].NICs[0].Virtio.TxPPS = math.Inf(1)
	v.Snapshot.VMs[2].Name = "d\xffb\"\n"
	v.Snapshot.VMs[3].NICs = append(v.Snapshot.VMs[3].NICs, v.Snapshot.VMs[3].NICs[0])
	v.Target.Reasons[6].Score = math.NaN()
	s := scrape(t, options(webtest.NewBackend(v)))
	for _, bad := range []string{"NaN", "Inf", "\xff"} {
		if strings.Contains(s, bad) {
			t.Errorf("has %q", bad)
		}
	}
	if !strings.Contains(s, `domain="legacy"`) || !strings.Contains(s, "d\uFFFDb") {
		t.Error("lacks the other series")
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(web.NewCollector(webtest.NewBackend(v).View, "x", nil))
	if _, err := reg.Gather(); err != nil {
		t.Error(err)
	}
}

// Every metric is documented, and nothing else is.
func TestMetricsAreDocumented(t *testing.T) {
	golden.Section(t, "../../docs/metrics.md", "metrics", web.MetricsTable())
}

func TestCollectorLint(t *testing.T) {
	problems, err := testutil.CollectAndLint(web.NewCollector(webtest.NewBackend(webtest.View()).View, "x", nil))
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

func BenchmarkScrape(b *testing.B) {
	backend := webtest.NewBackend(webtest.View())
	reg := prometheus.NewRegistry()
	reg.MustRegister(web.NewCollector(backend.View, "x", nil))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := reg.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
