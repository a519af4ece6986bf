package fleet_test

import (
	"testing"

	"sluice/internal/edge/fleet/fleettest"
)

// The ledger that stands for Placement in tests does what Placement does: package openstack has the same test.
func TestContract(t *testing.T) {
	fleettest.Contract(t, &fleettest.Ledger{})
}
