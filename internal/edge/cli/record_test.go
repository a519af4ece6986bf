package cli

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/edge/answer"
	"sluice/internal/edge/client"
	"sluice/internal/edge/edgetest"
	"sluice/internal/edge/server"
	"sluice/internal/model"
	"sluice/internal/research/trace"
	"sluice/internal/tests/testkit"
)

// looking is a daemon whose observations, 100 ms apart, are made by its queries, however slow this machine is.
type looking struct {
	*edgetest.Backend
	first   time.Time
	asked   atomic.Int64
	latest  func(query int64) int64 // the last observation at a query, of which the first is 1
	queries int64                   // after so many, enough is called
	enough  func()
	maxFile int64 // of the recording; 0: the default
	without int   // files of it that begin without memory
}

const looks = 12

// twice is a daemon that is queried twice for each of its observations.
func twice() *looking {
	return &looking{latest: func(query int64) int64 { return (query - 1) / 2 }, queries: 2 * looks}
}

func (l *looking) look(n int64) time.Time {
	return l.first.Add(time.Duration(n) * 100 * time.Millisecond)
}

func (l *looking) View() (*model.View, <-chan struct{}) {
	now, newer := l.Backend.View()
	v := *now
	query := l.asked.Add(1)
	v.Samples = nil
	for n := max(0, l.latest(query)-9); n <= l.latest(query); n++ {
		s := *now.Snapshot
		s.Time = l.look(n)
		v.Snapshot = &s
		v.Samples = append(v.Samples, model.Sample{Number: uint64(n) + 1, Snapshot: &s, Decided: s.Time})
	}
	if query == l.queries {
		l.enough()
	}
	return &v, newer
}

// Memory includes the first observation. Requests are counted from here.
func (l *looking) Memory(context.Context) (answer.Memory, error) {
	l.asked.Store(0)
	return answer.Memory{Time: l.look(0), State: []byte(`{"known":1}`)}, nil
}

// followed serves l until follow has finished recording, and returns the directory of the recording.
func followed(t *testing.T, l *looking, o *recordOptions) (dir string, samples, missed int) {
	t.Helper()
	dir = t.TempDir()
	socket := filepath.Join(dir, "s")
	l.Backend, l.first = edgetest.NewBackend(edgetest.View()), time.Now()
	server, err := server.New(server.Options{Backend: l, Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return server.Run(serving) })
	rec, err := trace.NewRecorder(filepath.Join(dir, "rec"), trace.RecorderOptions{MaxFile: l.maxFile})
	if err != nil {
		t.Fatal(err)
	}
	limit := testkit.Time(time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	l.enough = cancel
	n, missed, err := follow(ctx, client.New(socket), rec, o)
	stop()
	if e := g.Wait(); err != nil || e != nil {
		t.Fatal(err, e)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Fatalf("still at work after %s", limit)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	l.without = rec.WithoutMemory()
	return filepath.Join(dir, "rec"), n, missed
}

// The daemon's memory comes first, then every newer observation exactly once.
func TestFollowTakesEveryLook(t *testing.T) {
	l := twice()
	dir, n, missed := followed(t, l, &recordOptions{every: 20 * time.Millisecond})
	if n != looks-1 || missed != 0 {
		t.Errorf("%d samples, %d missed, want %d and none", n, missed, looks-1)
	}
	l.check(t, dir, 1, looks-1)
}

// Of observations that come faster than its queries it takes those that the daemon still has, and counts those that it lacks between them.
// TestFilesWithoutMemory: of samples that come four at a time, each in a file of its own, only the first begins with what the daemon knew.
func TestFilesWithoutMemory(t *testing.T) {
	l := &looking{latest: func(query int64) int64 { return 4 * min(query, 2) }, queries: 3, maxFile: 1}
	_, n, _ := followed(t, l, &recordOptions{every: 20 * time.Millisecond})
	if n < 4 || l.without != n-1 {
		t.Errorf("%d files, %d of them without memory", n, l.without)
	}
}

func TestFollowTakesLooksThatItAskedLateFor(t *testing.T) {
	for _, x := range []struct{ each, missed int64 }{{4, 0}, {10, 0}, {15, 5}} {
		l := &looking{latest: func(query int64) int64 { return x.each * min(query, 2) }, queries: 3}
		dir, n, missed := followed(t, l, &recordOptions{every: 20 * time.Millisecond})
		if got := min(x.each, 10); int64(n) != 2*got || int64(missed) != x.missed {
			t.Errorf("%d at a time: %d samples, %d missed, want %d and %d", x.each, n, missed, 2*got, x.missed)
		}
		if x.missed == 0 {
			l.check(t, dir, 1, 2*x.each)
		}
	}
}

// check checks that a recording has these observations.
func (l *looking) check(t *testing.T, dir string, first, last int64) {
	t.Helper()
	back, err := trace.OpenRecording(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	for i := first; i <= last; i++ {
		s, err := back.Next()
		if err != nil {
			t.Fatalf("observation %d: %v", i, err)
		}
		if i == first && string(back.Memory()) != `{"known":1}` {
			t.Errorf("it begins with memory %q", back.Memory())
		}
		if want := l.look(i); !s.Snapshot.Time.Equal(want) {
			t.Errorf("observation %d is of %s, want %s", i, s.Snapshot.Time, want)
		}
	}
}

// It queries no more often than requested, and ends when its time is up.
func TestFollowEnds(t *testing.T) {
	const span = 200 * time.Millisecond
	l := twice()
	begun := time.Now()
	if _, n, _ := followed(t, l, &recordOptions{every: time.Hour, span: span}); n != 0 { // the daemon's memory includes its first observation
		t.Errorf("%d samples, want none", n)
	}
	if took := time.Since(begun); took < span {
		t.Errorf("ends after %s, want %s", took, span)
	}
	if n := l.asked.Load(); n != 1 {
		t.Errorf("asked %d times within the first hour", n)
	}
}
