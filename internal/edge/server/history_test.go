package server_test

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/edge/client"
	"sluice/internal/edge/edgetest"
	"sluice/internal/edge/server"
	"sluice/internal/model"
	"sluice/internal/tests/testkit"
)

// past is a history that counts its queries.
type past struct {
	mu    sync.Mutex
	asked []answer.HistoryQuery
}

// Events has one event, of the VM that is gone.
func (p *past) Events(q answer.EventsQuery) api.Events {
	return answer.Events([]model.Event{{ID: 3, At: edgetest.Now, Kind: model.EventUnplug, VM: "id", VMName: "gone"}}, q)
}

func (p *past) History(q answer.HistoryQuery) api.History {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, q)
	h := api.History{From: edgetest.Now, To: edgetest.Now.Add(20 * time.Second), Step: 10, VMs: []api.VMHistory{}}
	if q.VM == "" || q.VM == "gone" {
		h.VMs = append(h.VMs, api.VMHistory{
			Name: "gone", ID: "id", Gone: true, Virtio: api.Figures{1.26, float32(math.NaN())},
			VF: api.Figures{0, 123456.7},
		})
	}
	return h
}

func TestHistory(t *testing.T) {
	b, p := edgetest.NewBackend(withRevision(7)), &past{}
	o := options(b)
	o.History = p
	h := server.NewHandler(o)
	for range 3 {
		if w := <-get(h, "/v1/history"); w.Code != http.StatusOK || w.Header().Get(api.RevisionHeader) != "7" {
			t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
		}
		<-get(h, "/v1/history?from=2026-03-01T12:00:00Z")
	}
	if len(p.asked) != 2 || !p.asked[1].From.Equal(edgetest.Now) {
		t.Errorf("asked %v, want each answer made once", p.asked)
	}
	b.Show(withRevision(8))
	if <-get(h, "/v1/history"); len(p.asked) != 3 {
		t.Errorf("a new revision is not asked for: %v", p.asked)
	}
	for path, want := range map[string]int{
		"/v1/history?vm=db":      http.StatusOK, // exists, but nothing is known yet
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

func TestHappened(t *testing.T) {
	o := options(edgetest.NewBackend(withRevision(7)))
	o.History = &past{}
	h := server.NewHandler(o)
	for path, want := range map[string]struct {
		code   int
		events int
	}{
		"/v1/events?last=0":                {http.StatusOK, 1},
		"/v1/events?vm=gone&last=2&after=": {http.StatusOK, 1},
		"/v1/events?vm=db":                 {http.StatusOK, 0},
		"/v1/events?after=3":               {http.StatusOK, 0},
		"/v1/events?vm=nobody":             {http.StatusNotFound, 0},
		"/v1/events?last=-1":               {http.StatusBadRequest, 0},
		"/v1/events?after=x":               {http.StatusBadRequest, 0},
		"/v1/events?since=x":               {http.StatusBadRequest, 0},
		"/v1/events?until=18:52":           {http.StatusBadRequest, 0},
	} {
		w := <-get(h, path)
		var e api.Events
		if err := json.Unmarshal(w.Body.Bytes(), &e); w.Code != want.code || err != nil || len(e.Lines) != want.events {
			t.Errorf("%s: %d %s %v, want %d and %d events", path, w.Code, w.Body, err, want.code, want.events)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/events", nil)
	r.Header.Set("Accept", "application/json")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); !strings.HasPrefix(w.Body.String(), `{"now":`) {
		t.Errorf("a request that accepts JSON gets %s", w.Body)
	}
	o.History = nil
	if w := <-get(server.NewHandler(o), "/v1/events?last=0"); w.Code != http.StatusNotFound {
		t.Errorf("without a history: %d %s", w.Code, w.Body)
	}
}

// Arbitrary times are not cached, and do not cause common answers to be built more than once.
func TestMadeUpTimesTakeNoPlaceOfOthers(t *testing.T) {
	p := &past{}
	o := options(edgetest.NewBackend(withRevision(7)))
	o.History = p
	h := server.NewHandler(o)
	made := func(paths ...string) int {
		before := len(p.asked)
		for _, path := range paths {
			if w := <-get(h, "/v1/history"+path); w.Code != http.StatusOK {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		return len(p.asked) - before
	}
	made("?from=2026-03-01T11:00:00Z")
	for i := range 100 {
		made("?from=" + edgetest.Now.Add(time.Duration(i-150)*answer.HistoryStep).Format(time.RFC3339))
	}
	made("?from=0001-01-01T00:00:11Z", "?from=9999-12-31T23:59:59Z", "?from=1677-01-01T00:00:00Z")
	if n := made("", "", "?from=2026-03-01T12:00:10Z", "?from=2026-03-01T12:00:10Z"); n != 2 {
		t.Errorf("%d answers were made, want all there is and the end of it, each once", n)
	}
	if n := made("?from=2026-03-01T12:00:10.001Z", "?from=2026-03-01T12:00:19.999999999Z", "?from=2026-03-01T13:00:15%2B01:00"); n != 0 {
		t.Errorf("%d answers were made of times within one step", n)
	}
}

// waiting is a history that blocks as long as the test wants, except for complete queries.
type waiting struct {
	past
	begun, end chan struct{}
}

func (p *waiting) History(q answer.HistoryQuery) api.History {
	if !q.From.IsZero() {
		p.begun <- struct{}{}
		<-p.end
	}
	return p.past.History(q)
}

func TestOneAnswerDoesNotHoldUpAnother(t *testing.T) {
	p := &waiting{begun: make(chan struct{}), end: make(chan struct{})}
	o := options(edgetest.NewBackend(withRevision(7)))
	o.History = p
	h := server.NewHandler(o)
	slow := get(h, "/v1/history?from=2026-03-01T11:00:00Z")
	<-p.begun
	select {
	case w := <-get(h, "/v1/history"):
		if w.Code != http.StatusOK {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	case <-time.After(testkit.Time(5 * time.Second)):
		t.Error("all there is waits for another answer")
	}
	close(p.end)
	if w := <-slow; w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestHistoryOverASocket(t *testing.T) {
	p := &past{}
	o := options(edgetest.NewBackend(withRevision(7)))
	o.History, o.Socket = p, filepath.Join(socketDir(t), "s.sock")
	serve(t, o)
	h, err := client.New(o.Socket).History(t.Context(), answer.HistoryQuery{VM: "gone", From: edgetest.Now})
	if err != nil || len(h.VMs) != 1 || len(p.asked) != 1 || p.asked[0].VM != "gone" || !p.asked[0].From.Equal(edgetest.Now) {
		t.Fatalf("%+v, %v, asked %v", h, err, p.asked)
	}
	v := h.VMs[0]
	if v.Virtio[0] != 1.3 || !math.IsNaN(float64(v.Virtio[1])) || v.VF[0] != 0 || v.VF[1] != 123457 {
		t.Errorf("figures came as %v %v", v.Virtio, v.VF)
	}
}

func TestNoHistory(t *testing.T) {
	if w := ask(t, options(edgetest.NewBackend(edgetest.View())), http.MethodGet, "/v1/history", ""); w.Code != http.StatusNotFound {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
