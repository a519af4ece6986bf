package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/edge/client"
	"sluice/internal/edge/edgetest"
	"sluice/internal/edge/server"
	"sluice/internal/model"
	"sluice/internal/tests/testkit"
)

func withRevision(n uint64) *model.View {
	v := edgetest.View()
	v.Revision = n
	return v
}

// get sends a request that waits, and returns its answer.
func get(h http.Handler, path string) <-chan *httptest.ResponseRecorder {
	done := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		done <- w
	}()
	return done
}

func TestWaitForTheNextRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := edgetest.NewBackend(withRevision(7))
		h := server.NewHandler(options(b))
		for _, path := range []string{"status", "vms", "vfs", "bandwidth", "sla", "vpf", "plan", "fsck", "doctor", "overrides", "explain/db"} {
			b.Show(withRevision(7))
			answer := get(h, "/v1/"+path+"?after=7&wait=20s")
			time.Sleep(10 * time.Second)
			select {
			case w := <-answer:
				t.Fatalf("%s: answered %d without news", path, w.Code)
			default:
			}
			begun := time.Now()
			for n := range uint64(3) { // the last one is what counts
				b.Show(withRevision(8 + n))
			}
			w := <-answer
			if w.Code != http.StatusOK || w.Header().Get("Sluice-Revision") == "7" || time.Since(begun) != 0 {
				t.Errorf("%s: %d, %v, after %s", path, w.Code, w.Header(), time.Since(begun))
			}
		}
	})
}

func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := server.NewHandler(options(edgetest.NewBackend(withRevision(7))))
		for path, want := range map[string]struct {
			code int
			took time.Duration
		}{
			"/v1/vms":                        {http.StatusOK, 0},
			"/v1/vms?wait=5s":                {http.StatusOK, 0},
			"/v1/vms?after=7":                {http.StatusNotModified, 0},
			"/v1/vms?after=7&wait=5s":        {http.StatusNotModified, 5 * time.Second},
			"/v1/vms?after=6&wait=5s":        {http.StatusOK, 0},
			"/v1/vms?after=8000&wait=5s":     {http.StatusOK, 0}, // a revision of an earlier daemon
			"/v1/vms?after=7&wait=100h":      {http.StatusNotModified, 29 * time.Second},
			"/v1/vms?after=-7&wait=5s":       {http.StatusBadRequest, 0},
			"/v1/vms?after=7&wait=long":      {http.StatusBadRequest, 0},
			"/v1/vms?after=7&wait=-1s":       {http.StatusBadRequest, 0},
			"/v1/explain/db?after=7&wait=2s": {http.StatusNotModified, 2 * time.Second},
		} {
			begun := time.Now()
			w := <-get(h, path)
			if w.Code != want.code || time.Since(begun) != want.took {
				t.Errorf("%s: %d after %s, want %d after %s", path, w.Code, time.Since(begun), want.code, want.took)
			}
			if w.Code == http.StatusNotModified && w.Header().Get("Sluice-Revision") != "7" {
				t.Errorf("%s: %v lacks the revision", path, w.Header())
			}
		}
	})
}

// Waiting may take longer than the read timeout of requests, and ends with the server.
func TestWaitOverARealSocket(t *testing.T) {
	b := edgetest.NewBackend(withRevision(7))
	o := options(b)
	o.Socket = filepath.Join(socketDir(t), "s.sock")
	s, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	c := client.New(o.Socket)
	type answer struct {
		revision uint64
		err      error
	}
	ask := func() <-chan answer {
		done := make(chan answer, 1)
		go func() {
			n, err := c.After(t.Context(), 7)
			done <- answer{n, err}
		}()
		return done
	}
	first := ask()
	select {
	case a := <-first:
		t.Fatalf("answered without news: %+v", a)
	case <-time.After(6 * time.Second): // longer than the read timeout
	}
	b.Show(withRevision(8))
	if a := <-first; a.revision != 8 || a.err != nil {
		t.Errorf("have %+v", a)
	}
	b.Show(withRevision(7))
	second := ask()
	time.Sleep(100 * time.Millisecond) // let it start to wait; the test does not depend on it
	stop()
	begun := time.Now()
	<-second // either an unchanged revision, or the server is gone
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > testkit.Time(4*time.Second) {
		t.Errorf("the server waited %s for somebody who waits", took)
	}
}
