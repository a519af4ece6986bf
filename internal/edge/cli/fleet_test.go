package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/edge/fleet/fleettest"
)

// endAt ends a context when something is written.
type endAt struct {
	strings.Builder
	end context.CancelFunc
}

func (w *endAt) Write(b []byte) (int, error) {
	w.end()
	return w.Builder.Write(b)
}

// While the daemon is away, the log and the metrics say so, and the ledger stays as it is.
func TestPublishWithoutDaemon(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.prom")
	ctx, end := context.WithCancel(t.Context())
	out := &endAt{end: end}
	a := &app{socket: filepath.Join(t.TempDir(), "none.sock"), std: Streams{Out: out}}
	l := &fleettest.Ledger{}
	if err := a.keepPublished(ctx, l, fleettest.Host("a"), time.Hour, file); err != nil || !strings.Contains(out.String(), "no daemon answers") {
		t.Errorf("%v, told %q", err, out)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if want := "\nsluice_fleet_failures_total 1\n"; err != nil || !strings.Contains(string(text), want) || info.Mode().Perm() != 0o644 {
		t.Errorf("%s %v\n%s", info.Mode(), err, text)
	}
	if l.Writes() != 0 {
		t.Errorf("%d writes", l.Writes())
	}
}
