package demo_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/demo"
	"sluice/internal/edge/cli"
	"sluice/internal/edge/client"
	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
	"sluice/internal/model"
	"sluice/internal/tests/testkit"
)

// awayLedger cannot be read.
type awayLedger struct{ fleet.Ledger }

func (awayLedger) Tree(context.Context, string, bool, ...string) (fleet.State, error) {
	return fleet.State{}, errors.New("Placement does not answer")
}

// What `fleet place` claims for a VM is its SLA until the claim ends, also while the ledger is away.
func TestClaimIsAnSLA(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s.sock")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	o := cli.DemoOptions{VMs: 4, VFs: 2, Policy: "adaptive", Interval: time.Minute, Speed: 20, Seed: 1, Socket: socket}
	go func() { ended <- demo.Run(ctx, o) }()
	c := client.New(socket)
	wait := func(what string, there func() bool) {
		t.Helper()
		for end := time.Now().Add(testkit.Time(30 * time.Second)); !there(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no %s", what)
			}
		}
	}
	var vm *model.VM
	wait("running VM", func() bool {
		seen, err := c.LastSeen(ctx, time.Time{})
		for i := 0; err == nil && seen.Snapshot != nil && i < len(seen.Snapshot.VMs); i++ {
			if v := &seen.Snapshot.VMs[i]; v.State != model.VMStopped && len(v.NICs) > 0 {
				vm = v
			}
		}
		return vm != nil
	})
	nic := &vm.NICs[0]
	guaranteed := func() (float64, string) {
		slas, err := c.SLAs(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range slas {
			if slas[i].ID == string(vm.ID) && slas[i].NIC == nic.Alias {
				return slas[i].Promised.Bits, slas[i].Source
			}
		}
		return 0, ""
	}
	before, _ := guaranteed()
	l, h := &fleettest.Ledger{}, fleettest.Host("a")
	publish := func(writes bool) {
		t.Helper()
		if r := fleet.Once(ctx, l, h, c); r.Err != nil || r.Untold != nil || (r.Writes > 0) != writes || len(r.Unclaimed) > 0 {
			t.Fatalf("%+v", r)
		}
	}
	publish(true)
	ask := fleet.Ask{Kbits: 300_000, Traits: []string{fleet.NetworkTrait(nic.Network)}}
	if _, err := fleet.Place(ctx, l, string(vm.ID), nic.MAC.String(), ask); err != nil {
		t.Fatal(err)
	}
	publish(false)
	wait("SLA from the claim", func() bool {
		bits, source := guaranteed()
		return bits == 3e8 && source == "claim"
	})
	publish(false) // the claim is still that of place: the host does not claim what only a claim sets
	if r := fleet.Once(ctx, awayLedger{l}, h, c); r.Err == nil {
		t.Error("a ledger that is away")
	}
	capacity, err := c.Capacity(ctx)
	if err != nil || len(capacity.Claims) != 1 || capacity.Claims[0].NIC != nic.Alias || capacity.Claims[0].Refused != "" {
		t.Fatalf("%+v, %v", capacity.Claims, err)
	}
	if bits, source := guaranteed(); bits != 3e8 || source != "claim" {
		t.Errorf("while the ledger is away: %g from %q", bits, source)
	}
	state, _ := l.Fleet(ctx)
	offer := fleet.OfferOf(h, &capacity)
	if found := fleet.Check(&state, &offer); len(found) > 0 {
		t.Errorf("fsck: %+v", found)
	}
	if err := fleet.Release(ctx, l, string(vm.ID), nic.MAC.String()); err != nil {
		t.Fatal(err)
	}
	publish(false)
	wait("end of the SLA", func() bool { bits, _ := guaranteed(); return bits == before })
	publish(false)
	if state, _ := l.Fleet(ctx); len(state.Claims) > 0 {
		t.Errorf("left in the ledger: %+v", state.Claims)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
