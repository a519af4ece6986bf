package openstack_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/internal/demo"
	"sluice/internal/edge/cli"
	"sluice/internal/edge/client"
	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
	"sluice/internal/edge/fleet/openstack"
	"sluice/internal/tests/testkit"
)

var faultTime = flag.Duration("fault", 5*time.Minute, "simulated `time` that a fault of TestFleetFaults lasts")

// simulated is a host: a daemon over a simulated kernel, and what publishes it through a network that can fail.
type simulated struct {
	name   string
	host   fleet.Host
	client *client.Client
	ledger fleet.Ledger
	cut    *atomic.Bool // its network to Placement
	stop   context.CancelFunc
	ended  chan struct{}
	sla    sla
	rounds, failed,
	writes atomic.Int64
}

// sla is a guarantee on a simulated host, and what was seen of it since reset.
type sla struct {
	mu            sync.Mutex
	vm, mac, nic  string
	bits          float64
	least         float64 // promised
	samples, less int     // less: short of the promise
}

func (s *sla) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.least, s.samples, s.less = s.bits, 0, 0
}

// simulate starts a host.
func simulate(t *testing.T, placement, name string, vm int) *simulated {
	t.Helper()
	target, err := url.Parse(placement)
	if err != nil {
		t.Fatal(err)
	}
	h := &simulated{name: name, host: fleettest.Host(name), cut: &atomic.Bool{}, ended: make(chan struct{})}
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if h.cut.Load() {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	if h.ledger, err = openstack.Connect(t.Context(), server.URL); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s.sock")
	ctx, stop := context.WithCancel(t.Context())
	h.stop, h.client = stop, client.New(socket)
	var group sync.WaitGroup
	group.Go(func() {
		o := cli.DemoOptions{VMs: 8, VFs: 4, Policy: "adaptive", Interval: time.Minute, Speed: 60, Seed: 1, Socket: socket}
		if err := demo.Run(ctx, o); err != nil {
			t.Error(err)
		}
	})
	h.until(t, "VMs", func() bool {
		seen, err := h.client.LastSeen(ctx, time.Time{})
		if err != nil || seen.Snapshot == nil || len(seen.Snapshot.VMs) <= vm {
			return false
		}
		v := &seen.Snapshot.VMs[vm]
		h.sla.vm, h.sla.mac, h.sla.nic = string(v.ID), v.NICs[0].MAC.String(), v.NICs[0].Alias
		return true
	})
	group.Go(func() { // a simulated minute takes a second
		look := func(ctx context.Context) fleet.Round { return fleet.Once(ctx, h.ledger, h.host, h.client) }
		fleet.Run(ctx, time.Second, look, func(r *fleet.Round) {
			h.rounds.Add(1)
			h.writes.Add(int64(r.Writes))
			if r.Err != nil {
				h.failed.Add(1)
			}
		})
	})
	group.Go(func() { h.watch(ctx) })
	go func() {
		group.Wait()
		close(h.ended)
	}()
	t.Cleanup(func() {
		stop()
		<-h.ended
	})
	return h
}

// watch samples the SLA.
func (h *simulated) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if n, ok := h.nic(ctx); ok {
			s := &h.sla
			s.mu.Lock()
			s.samples++
			s.least = min(s.least, n.Promised.Bits)
			if n.Short > 0 {
				s.less++
			}
			s.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (h *simulated) nic(ctx context.Context) (api.NICShare, bool) {
	b, err := h.client.Bandwidth(ctx)
	i := slices.IndexFunc(b.NICs, func(n api.NICShare) bool { return n.ID == h.sla.vm && n.NIC == h.sla.nic })
	if err != nil || i < 0 {
		return api.NICShare{}, false
	}
	return b.NICs[i], true
}

func (h *simulated) until(t *testing.T, what string, there func() bool) {
	t.Helper()
	for end := time.Now().Add(testkit.Time(3 * time.Minute)); !there(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: no %s", h.name, what)
		}
	}
}

// round waits for a round that began and ended from now on.
func (h *simulated) round(t *testing.T) {
	t.Helper()
	from := h.rounds.Load()
	h.until(t, "round", func() bool { return h.rounds.Load() >= from+2 })
}

// pass lets the simulated time of a fault pass.
func (h *simulated) pass(t *testing.T) {
	t.Helper()
	now := func() (at time.Time) {
		c, err := h.client.Capacity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c.Observed
	}
	for from := now(); now().Sub(from) < *faultTime; time.Sleep(100 * time.Millisecond) {
	}
}

// What an hour without Placement, a host that is cut off from it, and the loss of a host do to every SLA. With -v it prints the table of
// docs/appendix/measurements.md.
func TestFleetFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server and three daemons: make long runs it")
	}
	environment(t, nil)
	at := placement(t)
	l, err := openstack.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	var hosts []*simulated
	for i := range 3 {
		h := simulate(t, at, fmt.Sprint("host", i+1), i)
		hosts = append(hosts, h)
		h.round(t)
	}
	claim := func(h *simulated) string {
		id, err := fleet.Consumer(h.sla.vm, h.sla.mac)
		if err != nil {
			t.Fatal(err)
		}
		c, ok, err := l.Claim(t.Context(), id)
		s, err2 := l.Fleet(t.Context())
		if err != nil || err2 != nil || !ok {
			return "none"
		}
		for i := range s.Providers {
			if n := c.Amounts[s.Providers[i].ID][fleet.ClassBits]; n > 0 {
				return fmt.Sprintf("%s at %s", fleet.Rate(n, 0), fleet.HostBy("", s.Providers[i].Name).Name)
			}
		}
		return "elsewhere"
	}
	// Two SLAs are placed, one is set on its host.
	for i, h := range hosts {
		h.sla.bits = 2e9
		if i == 1 {
			_, err = h.client.Do(t.Context(), api.VerbSetSLA, api.Request{VM: h.sla.vm, SLA: &api.SLA{Guarantee: "2Gbit"}})
		} else {
			_, err = fleet.Place(t.Context(), l, h.sla.vm, h.sla.mac, fleet.Ask{Kbits: 2e6, Host: h.host.ID})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range hosts {
		h.until(t, "SLA", func() bool {
			n, ok := h.nic(t.Context())
			return ok && n.Promised.Bits == 2e9 && claim(h) == "2Gbit at "+h.name
		})
		h.round(t)
	}
	t.Logf("each fault lasts %s of simulated time", *faultTime)
	t.Log("| fault | SLA of | source | least promised | short | rounds that failed, writes | claim meanwhile | afterwards |")
	t.Log("| --- | --- | --- | --- | --- | --- | --- | --- |")
	// during lets a fault last, and reports what it did to each host of watched. Rounds of those in failing must fail meanwhile.
	during := func(name string, watched, failing []*simulated, begin, end func()) {
		t.Helper()
		for _, h := range watched {
			h.sla.reset()
		}
		before := make([][3]int64, len(watched))
		for i, h := range watched {
			before[i] = [3]int64{h.rounds.Load(), h.failed.Load(), h.writes.Load()}
		}
		begin()
		watched[len(watched)-1].pass(t)
		for i, h := range watched {
			if slices.Contains(failing, h) {
				h.until(t, "round that fails: "+name, func() bool { return h.failed.Load() > before[i][1] })
			}
		}
		rows := make([]string, len(watched))
		for i, h := range watched {
			n, _ := h.nic(t.Context())
			h.sla.mu.Lock()
			rows[i] = fmt.Sprintf("| %s | %s | %s | %.3g Gbit/s | %d of %d samples | %d of %d, %d | %s |", name, h.name, n.Source, h.sla.least/1e9, h.sla.less,
				h.sla.samples, h.failed.Load()-before[i][1], h.rounds.Load()-before[i][0], h.writes.Load()-before[i][2], claim(h))
			if h.sla.least < h.sla.bits || h.sla.samples == 0 {
				t.Errorf("%s: %s is promised %g of %g at some time (%d samples)", name, h.name, h.sla.least, h.sla.bits, h.sla.samples)
			}
			h.sla.mu.Unlock()
		}
		end()
		for i, h := range watched {
			h.round(t)
			t.Logf("%s %s |", rows[i], claim(h))
		}
	}
	cut := func(list []*simulated, how bool) func() {
		return func() {
			for _, h := range list {
				h.cut.Store(how)
			}
		}
	}
	during("none", hosts, nil, func() {}, func() {})
	during("Placement is away", hosts, hosts, cut(hosts, true), cut(hosts, false))
	during("host2 is cut off from Placement", hosts, hosts[1:2], cut(hosts[1:2], true), cut(hosts[1:2], false))
	var moved []fleet.Evacuated
	during("host1 is lost, and evacuated", hosts[1:], nil, func() {
		hosts[0].stop()
		<-hosts[0].ended
		if moved, err = fleet.Evacuate(t.Context(), l, hosts[0].host, nil); err != nil || len(moved) != 1 || moved[0].Host == "" {
			t.Fatalf("%+v, %v", moved, err)
		}
	}, func() {})
	// The VM runs there by then: simulated hosts have the same ones.
	i := slices.IndexFunc(hosts, func(h *simulated) bool { return h.name == moved[0].Host })
	there := *hosts[i].client
	h := &simulated{name: hosts[i].name, client: &there}
	h.sla.vm, h.sla.nic, h.sla.mac = hosts[0].sla.vm, hosts[0].sla.nic, hosts[0].sla.mac
	h.until(t, "SLA of the VM that was moved", func() bool { n, ok := h.nic(t.Context()); return ok && n.Promised.Bits == 2e9 })
	t.Logf("| the same | host1 | claim | 0 until it is started at %s, then 2 Gbit/s | | | %s | %s |", h.name, claim(h), claim(h))
}
