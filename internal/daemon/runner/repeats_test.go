package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/model"
)

// away is a host that cannot be observed; the error contains the duration.
type away struct {
	since time.Time
	why   string // "": the host can be observed again
}

func (a *away) Snapshot(context.Context) (*model.Snapshot, error) {
	if a.why == "" {
		return &model.Snapshot{Time: time.Now(), Read: time.Now()}, nil
	}
	return nil, fmt.Errorf("not connected (for %s): %w", time.Since(a.since).Round(time.Second), errors.New(a.why))
}

// An hour without libvirt makes a handful of log lines, not one per second.
func TestFailuresAreLoggedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, err := loop.NewCore(model.Rules{Policy: "none"}, loop.DefaultOptions, loop.NoJournal{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		host := &away{since: time.Now(), why: "libvirtd stopped"}
		r := (&Placement{Core: core, Source: host, Sample: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))}).Init()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		// in lets d pass, then changes the reason, and returns how often the old one was logged.
		in := func(d time.Duration, next string) (n int) {
			time.Sleep(d)
			synctest.Wait()
			if err := r.Call(ctx, func(time.Time) {
				n = strings.Count(log.String(), "cannot observe")
				log.Reset()
				host.why = next
			}); err != nil {
				t.Error(err)
			}
			return n
		}
		if n := in(time.Hour, "libvirtd stopped"); n < 4 || n > 8 { // the units of the duration in the text make a new reason too
			t.Errorf("%d lines in the first hour", n)
		}
		if n := in(24*time.Hour, "no such file"); n < 12 || n > 28 {
			t.Errorf("%d lines in the day that follows", n)
		}
		if n := in(30*time.Second, ""); n != 1 {
			t.Errorf("%d lines when the reason changed", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !strings.Contains(log.String(), "the host can be observed again") {
			t.Errorf("nothing says that it is over: %s", log.String())
		}
		if n := in(time.Hour, "libvirtd stopped"); n != 0 {
			t.Errorf("%d lines while all is well", n)
		}
		if n := in(30*time.Second, ""); n != 1 {
			t.Errorf("%d lines when it fails again", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Two alternating reasons are not logged each time.
func TestReasonsThatTakeTurns(t *testing.T) {
	var r repeats
	lines, noon := 0, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for i := range 3600 {
		if r.due(noon.Add(time.Duration(i)*time.Second), []string{"a", "b"}[i%2]) {
			lines++
		}
	}
	if lines > 3600/10+1 {
		t.Errorf("%d lines in an hour", lines)
	}
}
