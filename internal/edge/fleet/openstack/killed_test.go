package openstack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/client"
	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/openstack"
	"sluice/internal/edge/fleet/placementtest"
	"sluice/internal/tests/testkit"
)

var killEach = flag.Bool("kill-each", false, "kill Placement before and after each request of each command, not once at the last and at each that writes claims")

// A VM that is on both simulated hosts: where it runs is what the file `where` says, which stands for libvirt.
const (
	movedVM  = "00000000-0000-4000-8000-000000000000"
	movedMAC = "52:54:00:00:00:00"
	moved    = 300_000 // kbit/s that it claims
)

// killing is two simulated hosts that publish to a real Placement, past the proxy that kills it, and a VM that is claimed.
type killing struct {
	t         *testing.T
	placement *placementtest.Server
	sluice    string
	dir       string
	hosts     map[string]fleet.Host
	clients   map[string]*client.Client

	mu     sync.Mutex
	at     string
	direct *openstack.Ledger // at that address
	moving bool              // the VM is claimed, and its hosts know: from now on it keeps its guarantee where it runs
	looks  int
}

// Placement is killed at each request of place, release and migrate that writes a claim, and at the last of each, before it sees it or before
// its answer arrives, at random, or both if there is one such request (with -kill-each both at any request): the command says so, what is left is found and healed, and the guarantee is always kept where the VM runs, claimed at one host and, while
// it migrates, at two.
func TestKilledAtWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server and two daemons: make long runs it")
	}
	k := &killing{
		t: t, placement: placementtest.Start(t), sluice: program(t), dir: t.TempDir(),
		hosts: map[string]fleet.Host{}, clients: map[string]*client.Client{},
	}
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	defer func() { stop(); all.Wait() }()
	for i, name := range []string{"a", "b"} {
		socket := filepath.Join(k.dir, name+".sock")
		demo := exec.CommandContext(ctx, k.sluice, "demo", "--vms", "12", "--vfs", "6", "--speed", "1", "--seed", fmt.Sprint(i), "--plain", //nolint:gosec // ours
			"--for", "24h", "--socket", socket)
		if err := demo.Start(); err != nil {
			t.Fatal(err)
		}
		all.Go(func() { _ = demo.Wait() })
		h, err := fleet.HostOf(fmt.Sprintf("00000000-0000-4000-8000-00000000000%s", name), name)
		if err != nil {
			t.Fatal(err)
		}
		k.hosts[name], k.clients[name] = h, client.New(socket)
		all.Go(func() { k.publish(ctx, h, k.clients[name]) })
	}
	all.Go(func() { k.watch(ctx) })
	k.eventually("both hosts offer room", func() error {
		out, err := k.run("list", "-o", "json")
		var links []fleet.Link
		if err == nil {
			err = json.Unmarshal([]byte(out), &links)
		}
		if err == nil && len(links) < 4 {
			err = fmt.Errorf("%d links", len(links))
		}
		return err
	})

	place := []string{"place", movedVM, "--mac", movedMAC, "--guarantee", "300Mbit", "--host", "a"}
	k.each("place", place, func() { k.ledger("") }, func() {
		if out, err := k.run(place...); err != nil || !strings.Contains(out, "of host a") {
			t.Errorf("repeated: %v, %s", err, out)
		}
		k.ledger("a")
		k.must("release", movedVM, "--mac", movedMAC)
	})
	release := []string{"release", movedVM, "--mac", movedMAC}
	k.each("release", release, func() { k.must("place", place[1:]...) }, func() {
		if out, err := k.run(release...); err != nil && !strings.Contains(err.Error(), "has no claim") {
			t.Errorf("repeated: %v, %s", err, out)
		}
		k.ledger("")
	})

	k.settled()
	k.must("place", place[1:]...)
	k.moves("a")
	k.settled()
	k.mu.Lock()
	k.moving = true
	k.mu.Unlock()
	where := filepath.Join(k.dir, "where")
	migrate := func(script string) []string {
		return []string{"migrate", movedVM, "--mac", movedMAC, "--wait", "1m", "--", "sh", "-c", script}
	}
	arrive := "echo {host} >" + where
	k.each("migrate", migrate(arrive), k.settled, k.heal)
	k.each("migrate that fails", migrate("exit 7"), k.settled, k.heal)
	// The command kills sluice itself: room is held, and the VM is at the new host or not.
	leave := func(script string) func() {
		return func() {
			k.settled()
			_, _ = k.run(migrate(script + "; kill -9 $PPID; sleep 0.2")...)
			if k.room() == "" {
				t.Error("no room is held")
			}
		}
	}
	k.each("migrate --end", []string{"migrate", movedVM, "--mac", movedMAC, "--end"}, leave(arrive), k.heal)
	k.each("migrate --cancel", []string{"migrate", movedVM, "--mac", movedMAC, "--cancel"}, leave("true"), k.heal)
	k.settled()
	t.Logf("the guarantee was looked at %d times", k.looks)
}

// run runs a command of sluice fleet through the proxy.
func (k *killing) run(args ...string) (string, error) {
	cmd := exec.Command(k.sluice, append([]string{"fleet", "--placement", k.placement.URL}, args...)...) //nolint:gosec // ours
	var out, failed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failed
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%w: %s", err, &failed)
	}
	return out.String(), nil
}

func (k *killing) must(verb string, args ...string) {
	k.t.Helper()
	if out, err := k.run(append([]string{verb}, args...)...); err != nil {
		k.t.Fatalf("%s: %v, %s", verb, err, out)
	}
}

// each runs a command again and again, each time after prepare and with Placement killed at the next of its requests; after that heal is
// called with Placement back.
func (k *killing) each(what string, args []string, prepare func(), heal func()) {
	k.t.Helper()
	begin, runs, failed := time.Now(), 0, 0
	prepare()
	k.placement.KillAt(0, "", false)
	if out, err := k.run(args...); err != nil && !strings.Contains(err.Error(), "exit status 7") {
		k.t.Fatalf("%s: %v, %s", what, err, out)
	}
	requests := k.placement.Requests()
	heal()
	var at []int
	for n, request := range requests {
		if *killEach || n == len(requests)-1 || placementtest.WritesClaim(request) {
			at = append(at, n)
		}
	}
	for _, n := range at {
		sides := []bool{false, true}
		if !*killEach && len(at) > 1 {
			sides = []bool{rand.IntN(2) == 0}
		}
		for _, answers := range sides {
			prepare()
			k.placement.KillAt(n+1, "", answers)
			_, err := k.run(args...)
			killed := k.placement.Direct() == ""
			if !killed {
				// How often it asks depends on how long a host takes to answer.
				if err != nil && !strings.Contains(err.Error(), "exit status 7") {
					k.t.Errorf("%s, with Placement: %v", what, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), "Placement does not answer") {
				k.t.Errorf("%s, Placement killed at request %d (%s), which it answers: %t: %v", what, n+1, requests[n], answers, err)
			} else {
				failed++
			}
			runs++
			k.placement.KillAt(0, "", false)
			if killed {
				k.placement.Restart()
			}
			heal()
			if k.t.Failed() {
				k.t.Fatalf("%s, Placement killed at request %d (%s), which it answers: %t: see above", what, n+1, requests[n], answers)
			}
		}
	}
	if failed == 0 {
		k.t.Errorf("%s: Placement was never killed", what)
	}
	k.t.Logf("%s: %d requests, killed at %d of %d times, in %s", what, len(requests), failed, runs, time.Since(begin).Round(time.Second))
}

// heal does what fsck and the manual say to do: if room is held, the migration is ended or cancelled by where the VM is.
func (k *killing) heal() {
	k.t.Helper()
	if room := k.room(); room != "" {
		end := "--cancel"
		if room == k.where() {
			end = "--end"
		}
		k.must("migrate", movedVM, "--mac", movedMAC, end)
	}
	k.settled()
}

// settled waits until both hosts agree with the ledger, in which the VM has one claim, where it runs; then fsck finds nothing.
func (k *killing) settled() {
	k.t.Helper()
	here := k.where()
	k.ledger(here)
	k.eventually("the hosts have heard of it", func() error {
		for name, c := range k.clients {
			capacity, err := c.Capacity(k.t.Context())
			if err != nil {
				return err
			}
			if kept := len(capacity.Claims) == 1 && capacity.Claims[0].Refused == ""; kept != (name == here) || len(capacity.Claims) > 1 {
				return fmt.Errorf("%s: %+v", name, capacity.Claims)
			}
		}
		if c := k.clients[here]; c != nil {
			slas, err := c.SLAs(k.t.Context())
			if err != nil || !slices.ContainsFunc(slas, func(s api.NICSLA) bool { return s.ID == movedVM && s.Promised.Bits == moved*1e3 }) {
				return fmt.Errorf("%s does not promise it: %w", here, err)
			}
		}
		return nil
	})
	if out, err := k.run("--socket", filepath.Join(k.dir, "none"), "fsck"); err != nil {
		k.t.Errorf("fsck: %v, %s", err, out)
	}
}

// ledger checks that the VM's claim is at that host, all of it, and nothing else is claimed; "": nothing at all.
func (k *killing) ledger(claim string) {
	k.t.Helper()
	s := k.read()
	at := map[string]string{}
	for id, c := range s.Claims {
		for provider, classes := range c.Amounts {
			if classes[fleet.ClassBits] != moved || len(classes) != 1 || len(c.Amounts) != 1 {
				k.t.Errorf("%s claims %v", id, c.Amounts)
			}
			at[strings.Fields(c.User)[0]] = k.hostOf(&s, provider)
		}
	}
	want := map[string]string{}
	if claim != "" {
		want[fleet.ByPlace] = claim
	}
	if fmt.Sprint(at) != fmt.Sprint(want) {
		k.t.Errorf("claimed: %v, want %v", at, want)
	}
}

// room is the host at which room is held for the migration; "": there is none.
func (k *killing) room() string {
	k.t.Helper()
	s := k.read()
	for _, f := range fleet.Check(&s, nil) {
		if strings.Contains(f.Text, "room is held for a migration") {
			return f.Host
		}
	}
	return ""
}

func (k *killing) hostOf(s *fleet.State, provider string) string {
	for i := range s.Providers {
		p := &s.Providers[i]
		for name, h := range k.hosts {
			if p.ID == provider && p.Parent == h.ID {
				return name
			}
		}
	}
	return provider
}

// read returns what the ledger says.
func (k *killing) read() fleet.State {
	k.t.Helper()
	l := k.ledgerNow()
	if l == nil {
		k.t.Fatal("Placement does not run")
	}
	s, err := l.Fleet(k.t.Context())
	if err != nil {
		k.t.Fatal(err)
	}
	return s
}

// ledgerNow is the ledger past the proxy; nil: Placement does not run. It is made once for each start, because each has connections of its own.
func (k *killing) ledgerNow() *openstack.Ledger {
	at := k.placement.Direct()
	if at == "" {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.at != at {
		l, err := openstack.Connect(k.t.Context(), at)
		if err != nil {
			k.t.Error(err)
			return nil
		}
		k.at, k.direct = at, l
	}
	return k.direct
}

func (k *killing) moves(host string) {
	if err := os.WriteFile(filepath.Join(k.dir, "where"), []byte(host), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

func (k *killing) where() string {
	text, _ := os.ReadFile(filepath.Join(k.dir, "where"))
	return strings.TrimSpace(string(text))
}

// publish is the service on a host, oftener than every minute.
func (k *killing) publish(ctx context.Context, h fleet.Host, c *client.Client) {
	for ctx.Err() == nil {
		if l := k.ledgerNow(); l != nil {
			if r := fleet.Once(ctx, l, h, c); r.Untold != nil && ctx.Err() == nil {
				k.t.Error(r.Untold)
			}
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// watch looks all the time whether the VM's claim is its SLA where it runs. The daemon promises it a period later.
func (k *killing) watch(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
		before := k.where()
		k.mu.Lock()
		moving := k.moving
		k.mu.Unlock()
		if !moving || before == "" {
			continue
		}
		slas, err := k.clients[before].SLAs(ctx)
		if k.where() != before || ctx.Err() != nil {
			continue
		}
		k.looks++
		at := slices.IndexFunc(slas, func(s api.NICSLA) bool { return s.ID == movedVM })
		if err != nil || at < 0 || slas[at].Guarantee.Bits != moved*1e3 || slas[at].Source != "claim" {
			capacity, failed := k.clients[before].Capacity(ctx)
			k.t.Errorf("%s does not keep the guarantee of its VM: %v, %+v; it has been told %+v, %v; the ledger says %+v",
				before, err, slas[max(at, 0)], capacity.Claims, failed, k.read().Claims)
			return
		}
	}
}

func (k *killing) eventually(what string, check func() error) {
	k.t.Helper()
	err := errors.New("not yet")
	for end := time.Now().Add(testkit.Time(time.Minute)); err != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			k.t.Fatalf("%s: %v", what, err)
		}
		err = check()
	}
}
