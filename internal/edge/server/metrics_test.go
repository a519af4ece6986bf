package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/edge/edgetest"
	"sluice/internal/edge/server"
	"sluice/internal/model"
)

// Many scrapers cost no more than one: the metrics are rendered once per revision.
func TestScrapersShareOneCopy(t *testing.T) {
	b := edgetest.NewBackend(withRevision(7))
	o := options(b)
	var looks atomic.Int64
	o.Examine = func(*model.Snapshot) []model.Problem { looks.Add(1); return nil }
	h := server.NewHandler(o)
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

// One scraper's request does not affect what others get.
func TestScrapersDoNotChooseForOthers(t *testing.T) {
	h := server.NewHandler(options(edgetest.NewBackend(withRevision(7))))
	for _, path := range []string{"/metrics?name[]=sluice_build_info", "/metrics"} {
		if w := record(h, newRequest(path)); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "sluice_vm_info") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func BenchmarkScrape(b *testing.B) {
	o := options(edgetest.NewBackend(edgetest.View()))
	b.ReportAllocs()
	for b.Loop() {
		h := server.NewHandler(o) // a new handler: an answer is cached as long as the View
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}
}
