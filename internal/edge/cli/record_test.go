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

// looking is a daemon that is queried twice for each of its observations, which are 100 ms apart, however slow this machine
// is.
type looking struct {
	*edgetest.Backend
	first  time.Time
	asked  atomic.Int64
	enough func() // called when each observation has been queried twice
}

const looks = 12

func (l *looking) look(n int64) time.Time {
	return l.first.Add(time.Duration(n) * 100 * time.Millisecond)
}

func (l *looking) View() (*model.View, <-chan struct{}) {
	now, newer := l.Backend.View()
	v := *now
	s := *v.Snapshot
	n := l.asked.Add(1)
	s.Time = l.look((n - 1) / 2)
	v.Snapshot = &s
	if n == 2*looks {
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
func followed(t *testing.T, l *looking, o *recordOptions) (dir string, samples int) {
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
	rec, err := trace.NewRecorder(filepath.Join(dir, "rec"), trace.RecorderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	limit := testkit.Time(time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	l.enough = cancel
	n, err := follow(ctx, client.New(socket), rec, o)
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
	return filepath.Join(dir, "rec"), n
}

// The daemon's memory comes first, then every newer observation exactly once.
func TestFollowTakesEveryLook(t *testing.T) {
	l := &looking{}
	dir, n := followed(t, l, &recordOptions{every: 20 * time.Millisecond})
	if n != looks-1 {
		t.Errorf("%d samples, want %d", n, looks-1)
	}
	back, err := trace.OpenRecording(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	for i := range int64(looks - 1) {
		s, err := back.Next()
		if err != nil {
			t.Fatalf("sample %d: %v", i, err)
		}
		if i == 0 && string(back.Memory()) != `{"known":1}` {
			t.Errorf("it begins with memory %q", back.Memory())
		}
		if want := l.look(i + 1); !s.Snapshot.Time.Equal(want) {
			t.Errorf("sample %d is of %s, want %s", i, s.Snapshot.Time, want)
		}
	}
}

// It queries no more often than requested, and ends when its time is up.
func TestFollowEnds(t *testing.T) {
	const span = 200 * time.Millisecond
	l := &looking{}
	begun := time.Now()
	if _, n := followed(t, l, &recordOptions{every: time.Hour, span: span}); n != 0 { // the daemon's memory includes its first observation
		t.Errorf("%d samples, want none", n)
	}
	if took := time.Since(begun); took < span {
		t.Errorf("ends after %s, want %s", took, span)
	}
	if n := l.asked.Load(); n != 1 {
		t.Errorf("asked %d times within the first hour", n)
	}
}
