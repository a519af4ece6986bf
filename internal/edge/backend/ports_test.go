package backend

import (
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/model"
)

// What ports of Neutron ask for is in force at once, and after a restart, in the order in which it was asked for; another SLA may not
// take its room.
func TestPorts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "overrides.json")
	start := func() *Backend {
		b := host(t, path)
		for i := range b.view.Snapshot.VMs {
			nic := &b.view.Snapshot.VMs[i].NICs[0]
			nic.Tap, nic.MAC = "tap"+string(b.view.Snapshot.VMs[i].ID), model.MAC{2, byte(i)}
		}
		return b
	}
	b := start()
	port := func(id string, last byte, bits uint64) model.Port {
		return model.Port{ID: id, Tap: "tap" + id, MAC: model.MAC{2, last}, SLA: model.SLA{Guarantee: model.Rate{Bits: bits}, Source: "Neutron port " + id}}
	}
	put := func(want bool, refused string, ports ...model.Port) {
		t.Helper()
		res, changed, err := b.SetPorts(t.Context(), ports)
		if err != nil || changed != want || len(res.Ports) != len(ports) {
			t.Fatalf("changed: %v, %v, %+v", changed, err, res)
		}
		for _, p := range res.Ports {
			if (p.Refused != "") != (p.ID == refused) {
				t.Errorf("%s: %q", p.ID, p.Refused)
			}
		}
	}
	put(true, "", port("b", 1, 8e9))
	put(true, "a", port("a", 0, 3e9), port("b", 1, 8e9))
	put(false, "a", port("a", 0, 3e9), port("b", 1, 8e9))
	b = start()
	put(false, "a", port("a", 0, 3e9), port("b", 1, 8e9))
	put(true, "", port("a", 0, 3e9), port("b", 1, 6e9))
	if s := slaOf(b, 0); s.Guarantee.Bits != 3e9 || s.Source != "Neutron port a" {
		t.Errorf("in force: %+v", s)
	}
	if _, err := b.Do(t.Context(), set(5e9, "ua-net0")); err == nil || !strings.Contains(err.Error(), "no room for the 6Gbit of Neutron's port b (web)") {
		t.Errorf("a guarantee in the room of a port: %v", err)
	}
	put(true, "")
	if s := slaOf(b, 0); !s.IsZero() {
		t.Errorf("after the ports are gone: %+v", s)
	}
}
