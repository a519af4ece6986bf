package cli

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/internal/model"
	"sluice/internal/trace"
	"sluice/internal/web"
	"sluice/internal/web/webtest"
)

// looking is a daemon that looks at its host every 100 ms.
type looking struct{ *webtest.Backend }

func (l looking) View() (*model.View, <-chan struct{}) {
	now, newer := l.Backend.View()
	v := *now
	s := *v.Snapshot
	s.Time = time.Now().Truncate(100 * time.Millisecond)
	v.Snapshot = &s
	return &v, newer
}

func (l looking) Memory(context.Context) (web.Memory, error) {
	v, _ := l.View()
	return web.Memory{Time: v.Snapshot.Time, State: []byte(`{"known":1}`)}, nil
}

func TestFollowTakesEveryLook(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	server, err := web.New(web.Options{Backend: looking{webtest.NewBackend(webtest.View())}, Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error { return server.Run(ctx) })
	rec, err := trace.NewRecorder(filepath.Join(dir, "rec"), trace.RecorderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := follow(ctx, web.NewClient(socket), rec, &recordOptions{every: 20 * time.Millisecond, span: 2 * time.Second})
	cancel()
	if e := g.Wait(); err != nil || e != nil {
		t.Fatal(err, e)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	if n < 10 || n > 21 {
		t.Errorf("%d samples of about 19", n)
	}
	back, err := trace.OpenRecording(filepath.Join(dir, "rec"))
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	if _, err := back.Next(); err != nil || string(back.Memory()) != `{"known":1}` {
		t.Errorf("it begins with memory %q, %v", back.Memory(), err)
	}
}
