package config

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/model"
)

func TestGuestPolicy(t *testing.T) {
	c := &Config{VirtualPFs: VirtualPFs{Guests: []Guest{
		{Match: "node-*", MACs: "02:*, 0A:*", Addresses: "10.1.2.3/8"},
		{Match: "*-x", Refuse: true},
	}}}
	for name, want := range map[string]model.GuestPolicy{
		"node-1": {Attach: true, MACs: []string{"02:*", "0a:*"}, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		"node-x": {Attach: true, MACs: []string{"02:*", "0a:*"}, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		"web-x":  {},
		"web-1":  {Attach: true},
	} {
		if diff := cmp.Diff(want, c.GuestPolicy("", name), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
