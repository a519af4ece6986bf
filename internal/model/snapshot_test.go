package model

import "testing"

func TestVirtioPF(t *testing.T) {
	s := &Snapshot{PFs: []PF{
		{Name: "backup", Network: "br0", Managed: true, Uplink: Uplink{Why: "is a backup", Passes: true}},
		{Name: "foreign", Network: "br0"},
		{Name: "active", Network: "br0", Managed: true},
		{Name: "lonely"},
		{Name: "cut", Network: "br1", Uplink: Uplink{Why: "its bond has no active port", Passes: true}},
	}}
	for network, want := range map[string]string{"br0": "active", "br1": "cut", "br2": "", "": ""} {
		got := ""
		if pf := s.VirtioPF(&NIC{Network: network}); pf != nil {
			got = pf.Name
		}
		if got != want {
			t.Errorf("taps in %q share the link of %q, want %q", network, got, want)
		}
	}
}
