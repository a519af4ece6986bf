package openstack_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
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
	program := filepath.Join(t.TempDir(), "sluice")
	if out, err := exec.Command("go", "build", "-o", program, "sluice/cmd/sluice").CombinedOutput(); err != nil { //nolint:gosec // fixed
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command("../../../../scripts/fleet-demo")
	cmd.Env = append(os.Environ(), "SLUICE="+program)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		`(?m)^0b0c4fa4-6d2c-4b0e-9a35-5b9a2c2a1f01 has 2Gbit on PF \S+ of host host\d$`,
		`(?m)^host1 +\S+ +br0 +up +40Gbit +[35]Gbit +3[57]Gbit$`, // claimed, with or without the VM that was placed
		`(?m)^\S+ +52:54:00:00:00:00 +3Gbit +host1 +host[23] +\S+ +the host is to be emptied$`,
		`(?m)^\S+ +52:54:00:00:00:00 +3Gbit +host[23] +\S+$`, // evacuated
		`(?m)^host1 +\S+ +br0 +drained +40Gbit +0 +40Gbit$`,
		`"host3:9178"`,
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}
