package openstack_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
	"sluice/internal/edge/fleet/openstack"
	"sluice/internal/edge/fleet/placementtest"
)

// A migration that ends while its new host reads the ledger: the host sees the room or the claim.
func TestMigrationEndsBetweenReads(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server: make long runs it")
	}
	s := placementtest.Start(t)
	direct, err := openstack.Connect(t.Context(), s.Direct())
	if err != nil {
		t.Fatal(err)
	}
	a, b := fleettest.Host("a"), fleettest.Host("b")
	for _, h := range []fleet.Host{a, b} {
		if _, _, err := fleet.Publish(t.Context(), direct, h, fleettest.Capacity()); err != nil {
			t.Fatal(err)
		}
	}
	vm, macs := fleettest.VM(1), []string{fleettest.MAC(1)}
	if _, err := fleet.Place(t.Context(), direct, vm, macs[0], fleet.Ask{Kbits: 1_000_000, Host: a.ID}); err != nil {
		t.Fatal(err)
	}
	if _, err := fleet.BeginMigration(t.Context(), direct, vm, macs, b.ID); err != nil {
		t.Fatal(err)
	}
	l, err := openstack.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	ended := false
	s.Before(func(request string) {
		if !ended && strings.HasPrefix(request, "GET /allocations/") {
			ended = true
			if err := fleet.EndMigration(context.WithoutCancel(t.Context()), direct, vm, macs); err != nil {
				t.Error(err)
			}
		}
	})
	state, err := l.Tree(t.Context(), b.ID, false)
	if err != nil || !ended || len(state.Claims) != 1 {
		t.Errorf("ended: %t; %v, %+v", ended, err, state.Claims)
	}
}

// The demo of a fleet does all that it says, on a real Placement.
func TestFleetDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server and three daemons: make long runs it")
	}
	placementtest.Start(t) // skips if it cannot be installed
	cmd := exec.Command("../../../../scripts/fleet-demo")
	cmd.Env = append(os.Environ(), "SLUICE="+program(t))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		`(?m)^00000000-0000-4000-8000-000000000000 has 2Gbit on PF \S+ of host host\d$`,
		`(?s)3\. CLAIMED: host\d is told so.*\n  guarantee +2Gbit.*4\. MOVED`,
		`(?m)^virsh migrate --live web-00 qemu\+ssh://host\d/system$`,
		`(?s)\d guarantees it now.*\n  guarantee +2Gbit.*\n  guarantee +none.*\n5\. `,
		`(?m)^host\d +\S+ +br0 +up +40Gbit +2Gbit +38Gbit$`,
		`(?m)^\S+ +52:54:00:00:00:04 +3Gbit +host\d +host\d +\S+ +- +the host is to be emptied$`,
		`(?m)^\S+ +52:54:00:00:00:04 +3Gbit +host\d +\S+$`, // evacuated
		`(?m)^\S+ +52:54:00:00:00:00 +2Gbit +host\d +\S+$`,
		`(?m)^host\d +\S+ +br0 +drained +40Gbit +0 +40Gbit$`,
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}
