package server_test

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/edgetest"
	"sluice/internal/edge/server"
	"sluice/internal/model"
	"sluice/internal/tests/golden"
)

func options(b server.Backend) server.Options {
	return server.Options{
		Backend: b, Version: "1.2.3", Now: func() time.Time { return edgetest.Now.Add(time.Second) },
		Stale: 10 * time.Second, Logger: discard(),
	}
}

// ask sends one request to a handler, as a peer with read access.
func ask(t *testing.T, o server.Options, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	server.NewHandler(o).ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

func TestAnswers(t *testing.T) {
	o := options(edgetest.NewBackend(edgetest.View()))
	for name, path := range map[string]string{
		"status.json":          "/v1/status",
		"vms.json":             "/v1/vms",
		"vfs.json":             "/v1/vfs",
		"plan.json":            "/v1/plan",
		"overrides.json":       "/v1/overrides",
		"fsck.json":            "/v1/fsck",
		"doctor.json":          "/v1/doctor",
		"explain-web-10.json":  "/v1/explain/web-10",
		"explain-by-uuid.json": "/v1/explain/" + string(edgetest.ID(2)),
	} {
		t.Run(name, func(t *testing.T) {
			w := ask(t, o, http.MethodGet, path, "")
			if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
				t.Fatalf("status %d, %v", w.Code, w.Header())
			}
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, w.Body.Bytes(), "", "  "); err != nil {
				t.Fatal(err)
			}
			golden.File(t, filepath.Join("testdata", name), pretty.String())
		})
	}
}

// Before the first observation of the host, answers that depend on it say so instead of being empty. All others work, and
// lists are never null.
func TestAnswersOfADaemonThatKnowsNothing(t *testing.T) {
	for _, v := range []*model.View{nil, {}, {Snapshot: &model.Snapshot{}, Target: &model.Target{}}} {
		o := options(edgetest.NewBackend(v))
		for _, path := range []string{"vms", "vfs", "bandwidth", "sla", "plan", "fsck", "explain/db", "snapshot"} {
			w := ask(t, o, http.MethodGet, "/v1/"+path, "")
			if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" ||
				!strings.Contains(w.Body.String(), "not been observed") {
				t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
			}
		}
		for _, path := range []string{"status", "doctor", "overrides", "vpf"} {
			w := ask(t, o, http.MethodGet, "/v1/"+path, "")
			if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "null") {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		if w := ask(t, o, http.MethodGet, "/healthz", ""); w.Code != http.StatusServiceUnavailable {
			t.Errorf("healthy without a look: %d", w.Code)
		}
		if w := ask(t, o, http.MethodGet, "/metrics", ""); w.Code != http.StatusOK {
			t.Errorf("metrics: %d", w.Code)
		}
	}
}

func TestHealth(t *testing.T) {
	o := options(edgetest.NewBackend(edgetest.View()))
	if w := ask(t, o, http.MethodGet, "/healthz", ""); w.Code != http.StatusOK {
		t.Errorf("fresh: %d %s", w.Code, w.Body)
	}
	o.Now = func() time.Time { return edgetest.Now.Add(11 * time.Second) }
	if w := ask(t, o, http.MethodGet, "/healthz", ""); w.Code != http.StatusServiceUnavailable ||
		!strings.Contains(w.Body.String(), "11 s old") {
		t.Errorf("stale: %d %s", w.Code, w.Body)
	}
	if w := ask(t, o, http.MethodGet, "/v1/doctor", ""); !strings.Contains(w.Body.String(), "11s old") {
		t.Errorf("doctor is silent about it: %s", w.Body)
	}
}

func TestWrongRequests(t *testing.T) {
	o := options(edgetest.NewBackend(edgetest.View()))
	for _, tc := range []struct {
		method, path string
		want         int
	}{
		{http.MethodGet, "/", http.StatusNotFound},
		{http.MethodGet, "/v1/nothing", http.StatusNotFound},
		{http.MethodDelete, "/v1/vms", http.StatusNotFound},
		{http.MethodGet, "/v1/pin", http.StatusNotFound},
		{http.MethodGet, "/v1/explain/nobody", http.StatusNotFound},
		{http.MethodGet, "/v1/explain/" + strings.Repeat("x", 5000), http.StatusNotFound},
		{http.MethodGet, "/v1/explain/..%2f..%2fetc", http.StatusNotFound},
		{http.MethodPost, "/v1/pin", http.StatusForbidden},
		{http.MethodPost, "/v1/drain", http.StatusForbidden},
	} {
		w := ask(t, o, tc.method, tc.path, `{"vm":"db"}`)
		var r api.Error
		if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Code != tc.want || r.Text == "" || r.Remedy == "" {
			t.Errorf("%s %.40s: want %d with error and remedy, have %d %s", tc.method, tc.path, tc.want, w.Code, w.Body)
		}
		if w.Body.Len() > 400 {
			t.Errorf("%s %.40s: answer of %d bytes repeats the request", tc.method, tc.path, w.Body.Len())
		}
	}
}

func TestFigureThatIsNoNumberIsAnError(t *testing.T) {
	v := edgetest.View()
	v.Snapshot.VMs[0].CPU = math.NaN()
	w := ask(t, options(edgetest.NewBackend(v)), http.MethodGet, "/v1/vms", "")
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "error") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
