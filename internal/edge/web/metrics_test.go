package web_test

import (
	"bytes"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/edge/web"
	"sluice/internal/edge/web/webtest"
	"sluice/internal/model"
	"sluice/internal/tests/golden"
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
	promtool(t, scrape(t, o))
}

// promtool reads the text as Prometheus would, and lints it.
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

// What an alert rests on: a guest that boasts or leaves its VF alone, a tap without bridge, a finding, a move.
func TestMetricsOfTroubles(t *testing.T) {
	v := webtest.View()
	web2 := v.Snapshot.FindVM(webtest.ID(7))
	web2.NICs[0].VFPath.Source, web2.NICs[0].VFPath.Denied = model.SourceAgent, 4e6
	web2.NICs[0].LinkUp = model.No
	v.Snapshot.FindVM(webtest.ID(3)).NICs[0].LinkUp = model.Unknown
	v.Snapshot.FindVF(web2.NICs[0].VF).InGuest = model.No
	v.Snapshot.FindVF(model.VFID{PF: "pf0", Index: 1}).InGuest = model.Unknown
	v.Findings = []model.Finding{{Code: "stale-fdb", Subject: "bridge br0"}, {Code: "stale-fdb", Subject: "bridge br0"}} // two MACs
	s := scrape(t, options(webtest.NewBackend(v)))
	id := `uuid="` + string(webtest.ID(7)) + `"`
	for _, want := range []string{
		`nic_denied_packets_per_second{domain="web-2",target_device="vnet7",` + id + `} 4e+06`,
		`nic_virtio_up{domain="web-2",target_device="vnet7",` + id + `} 0`,
		`vf_in_guest{domain="web-2",pf="pf0",` + id + `,vf="0"} 0`,
		`finding_info{code="stale-fdb",subject="bridge br0"} 1`,
		`findings{code="stale-fdb"} 2`,
		`move_start_time_seconds{domain="web-10",kind="plug",pf="pf0",uuid="` + string(webtest.ID(8)) + `",vf="2"} 1.772366398e+09`,
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

// Every metric is documented, and nothing else is.
func TestMetricsAreDocumented(t *testing.T) {
	golden.Section(t, "../../../docs/metrics.md", "metrics", web.MetricsTable())
}

// Many scrapers cost no more than one: there is one copy a revision.
func TestScrapersShareOneCopy(t *testing.T) {
	b := webtest.NewBackend(withRevision(7))
	o := options(b)
	var looks atomic.Int64
	o.Examine = func(*model.Snapshot) []model.Problem { looks.Add(1); return nil }
	h := web.NewHandler(o)
	scrapeAll := func() string {
		var wg sync.WaitGroup
		texts := make([]string, 32)
		for i := range texts {
			wg.Go(func() {
				w := record(h, newRequest("/metrics"))
				texts[i] = w.Body.String()
				if w.Code != http.StatusOK || texts[i] == "" {
					t.Errorf("%d %q", w.Code, texts[i])
				}
			})
		}
		wg.Wait()
		return texts[31]
	}
	begun := time.Now()
	first := scrapeAll()
	if n := looks.Load(); n > 1+int64(time.Since(begun)/time.Second) {
		t.Errorf("32 scrapers had the host examined %d times", n)
	}
	v := withRevision(8)
	v.Totals.Plugs = 4711
	b.Show(v)
	if second := scrapeAll(); !strings.Contains(second, "4711") || strings.Contains(first, "4711") {
		t.Error("a new View does not show")
	}
}

// What one scraper asks for is not what the others get.
func TestScrapersDoNotChooseForOthers(t *testing.T) {
	h := web.NewHandler(options(webtest.NewBackend(withRevision(7))))
	for _, path := range []string{"/metrics?name[]=sluice_build_info", "/metrics"} {
		if w := record(h, newRequest(path)); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "sluice_vm_info") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func BenchmarkScrape(b *testing.B) {
	o := options(webtest.NewBackend(webtest.View()))
	b.ReportAllocs()
	for b.Loop() {
		h := web.NewHandler(o) // afresh: an answer is kept for as long as the View is
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}
}
