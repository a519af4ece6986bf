package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/edge/fleet"
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

// Prometheus gets the hosts of that time, and an error rather than an empty list: it then keeps those that it has.
func TestTargetsOverHTTP(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	r, w := io.Pipe()
	a := &app{std: Streams{Out: w}}
	l := &failing{Ledger: fleettest.Example()}
	done := make(chan error, 1)
	go func() { done <- a.serveTargets(ctx, "127.0.0.1:0", targetsHandler(l, 9178)) }()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	get := func() (int, string) {
		t.Helper()
		url := strings.TrimSpace(strings.TrimPrefix(line, "targets at "))
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	if code, body := get(); code != 200 || body != `[{"targets":["host1:9178","host2:9178","host3:9178"]}]`+"\n" {
		t.Errorf("%d %s", code, body)
	}
	l.away.Store(true)
	if code, body := get(); code != 503 || !strings.Contains(body, "away") {
		t.Errorf("%d %s", code, body)
	}
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// failing is a ledger that does not answer while it is away.
type failing struct {
	fleet.Ledger
	away atomic.Bool
}

func (l *failing) Hosts(ctx context.Context) ([]fleet.Host, error) {
	if l.away.Load() {
		return nil, errors.New("it is away")
	}
	return l.Ledger.Hosts(ctx)
}

// While the daemon is away, the log and the metrics say so, and the ledger stays as it is.
func TestPublishWithoutDaemon(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fleet.prom")
	ctx, end := context.WithCancel(t.Context())
	out := &endAt{end: end}
	a := &app{socket: filepath.Join(t.TempDir(), "none.sock"), std: Streams{Out: out}}
	l := &fleettest.Ledger{}
	if err := a.keepPublished(ctx, func(ctx context.Context) fleet.Round { return fleet.Once(ctx, l, fleettest.Host("a"), a.client()) }, time.Hour, file); err != nil || !strings.Contains(out.String(), "no daemon answers") {
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

// A new host that does not answer gets no VM, and the room there is given back. Without the wait it does.
func TestMigrateToSilentHost(t *testing.T) {
	l := fleettest.Example()
	vm, mac := fleettest.VM(9), fleettest.MAC(9)
	if _, err := fleet.Place(t.Context(), l, vm, mac, fleet.Ask{Kbits: 1_000_000, Traits: []string{fleet.NetworkTrait("br0")}}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "migrated")
	out := &strings.Builder{}
	a := &app{std: Streams{Out: out, Err: out}}
	_, err := a.migrate(t.Context(), l, vm, []string{mac}, "", 10*time.Millisecond, []string{"touch", file})
	if err == nil || !strings.Contains(err.Error(), "has not answered within 10ms that it keeps the claims") ||
		!strings.Contains(err.Error(), "alone again") || !strings.Contains(out.String(), "waiting until its daemon keeps that") {
		t.Errorf("%v, told %q", err, out)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it has migrated")
	}
	m, err := a.migrate(t.Context(), l, vm, []string{mac}, "", 0, []string{"touch", file})
	if err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); err != nil || m.From == m.Host {
		t.Errorf("%+v, %v", m, err)
	}
}
