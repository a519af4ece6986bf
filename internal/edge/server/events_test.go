package server_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/edge/client"
	"sluice/internal/edge/edgetest"
	"sluice/internal/edge/server"
	"sluice/internal/tests/testkit"
)

// listen reads a stream for some time and returns what it sent.
func listen(h http.Handler, d time.Duration) string {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/events", nil).WithContext(ctx))
	return w.Body.String()
}

func event(n string) string { return "event: revision\ndata: " + n + "\n\n" }

func TestEvents(t *testing.T) {
	const hello = "retry: 2000\n\n"
	const beat = ": nothing new\n\n"
	for _, c := range []struct {
		name  string
		news  []time.Duration // when revisions 8, 9 ... appear
		until time.Duration
		want  string
	}{
		{"the first at once", nil, time.Second, hello + event("7")},
		{"news at once", []time.Duration{time.Second}, 1001 * time.Millisecond, hello + event("7") + event("8")},
		{
			"the last of many, after half a second",
			[]time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 499 * time.Millisecond},
			501 * time.Millisecond, hello + event("7") + event("10"),
		},
		{"not before", []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 498 * time.Millisecond}, 499 * time.Millisecond, hello +
			event("7")},
		{"heartbeats", nil, 46 * time.Second, hello + event("7") + beat + beat + beat},
		{"longer than a command may take", []time.Duration{60 * time.Second}, 61 * time.Second, hello + event("7") + beat + beat + beat +
			event("8")},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := edgetest.NewBackend(withRevision(7))
			for i, d := range c.news {
				time.AfterFunc(d, func() { b.Show(withRevision(8 + uint64(i))) }) //nolint:gosec // few
			}
			if got := listen(server.NewHandler(options(b)), c.until); got != c.want {
				t.Errorf("%s: have %q, want %q", c.name, got, c.want)
			}
			time.Sleep(time.Minute) // the remaining revisions
		})
	}
}

func TestNoMoreThanTwoEventsASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := edgetest.NewBackend(withRevision(7))
		stop := make(chan struct{})
		go func() {
			for n := uint64(8); ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
					b.Show(withRevision(n))
				}
			}
		}()
		if n := strings.Count(listen(server.NewHandler(options(b)), 10*time.Second+time.Millisecond), "data:"); n < 20 || n > 21 {
			t.Errorf("%d events in ten seconds", n)
		}
		close(stop)
	})
}

// A stream may last longer than the write timeout of answers.
func TestEventsOutlastTheWriteTimeout(t *testing.T) {
	b := edgetest.NewBackend(withRevision(7))
	s := httptest.NewUnstartedServer(server.NewHandler(options(b)))
	s.Config.WriteTimeout = 100 * time.Millisecond
	s.Start()
	defer s.Close()
	resp, err := http.Get(s.URL + "/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	time.AfterFunc(700*time.Millisecond, func() { b.Show(withRevision(8)) })
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if lines.Text() == "data: 8" {
			return
		}
	}
	t.Error("the stream ended before the news")
}

// Over a real socket a stream may last longer than the read timeout of requests, and ends at once when the server does.
func TestEventsOverARealSocket(t *testing.T) {
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
	heard := make(chan uint64)
	left := make(chan error, 1)
	go func() {
		left <- client.New(o.Socket).Events(t.Context(), func(n uint64) error { heard <- n; return nil })
	}()
	if n := <-heard; n != 7 {
		t.Errorf("begins with %d", n)
	}
	time.Sleep(6 * time.Second) // longer than the read timeout
	b.Show(withRevision(8))
	if n := <-heard; n != 8 {
		t.Errorf("news is %d", n)
	}
	begun := time.Now()
	stop()
	if err := <-left; !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("the stream's end is %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > testkit.Time(4*time.Second) {
		t.Errorf("the server waited %s for somebody who listens", took)
	}
}
