package web_test

import (
	"math"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/internal/web"
	"sluice/internal/web/webtest"
)

// past is a history that counts how often it is asked.
type past struct {
	mu    sync.Mutex
	asked []web.HistoryQuery
}

func (p *past) History(q web.HistoryQuery) api.History {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, q)
	h := api.History{From: webtest.Now, To: webtest.Now.Add(20 * time.Second), Step: 10, VMs: []api.VMHistory{}}
	if q.VM == "" || q.VM == "gone" {
		h.VMs = append(h.VMs, api.VMHistory{Name: "gone", ID: "id", Gone: true, Virtio: api.Figures{1.26, float32(math.NaN())}, VF: api.Figures{0, 123456.7}})
	}
	return h
}

func TestHistory(t *testing.T) {
	b, p := webtest.NewBackend(withRevision(7)), &past{}
	o := options(b)
	o.History = p
	h := web.NewHandler(o)
	for range 3 {
		if w := <-get(h, "/v1/history"); w.Code != http.StatusOK || w.Header().Get(api.RevisionHeader) != "7" {
			t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
		}
		<-get(h, "/v1/history?from=2026-03-01T12:00:00Z")
	}
	if len(p.asked) != 2 || !p.asked[1].From.Equal(webtest.Now) {
		t.Errorf("asked %v, want each answer made once", p.asked)
	}
	b.Show(withRevision(8))
	if <-get(h, "/v1/history"); len(p.asked) != 3 {
		t.Errorf("a new revision is not asked for: %v", p.asked)
	}
	for path, want := range map[string]int{
		"/v1/history?vm=db":      http.StatusOK, // there, and nothing is known yet
		"/v1/history?vm=gone":    http.StatusOK,
		"/v1/history?vm=nobody":  http.StatusNotFound,
		"/v1/history?from=today": http.StatusBadRequest,
		"/v1/history?after=8":    http.StatusNotModified,
	} {
		if w := <-get(h, path); w.Code != want {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
}

func TestHistoryOverASocket(t *testing.T) {
	p := &past{}
	o := options(webtest.NewBackend(withRevision(7)))
	o.History, o.Socket = p, filepath.Join(socketDir(t), "s.sock")
	serve(t, o)
	h, err := web.NewClient(o.Socket).History(t.Context(), web.HistoryQuery{VM: "gone", From: webtest.Now})
	if err != nil || len(h.VMs) != 1 || len(p.asked) != 1 || p.asked[0].VM != "gone" || !p.asked[0].From.Equal(webtest.Now) {
		t.Fatalf("%+v, %v, asked %v", h, err, p.asked)
	}
	v := h.VMs[0]
	if v.Virtio[0] != 1.3 || !math.IsNaN(float64(v.Virtio[1])) || v.VF[0] != 0 || v.VF[1] != 123457 {
		t.Errorf("figures came as %v %v", v.Virtio, v.VF)
	}
}

func TestNoHistory(t *testing.T) {
	if w := ask(t, options(webtest.NewBackend(webtest.View())), http.MethodGet, "/v1/history", ""); w.Code != http.StatusNotFound {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
