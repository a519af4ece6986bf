package model

import "testing"

func TestVPFAlias(t *testing.T) {
	for _, name := range []string{"vpf0", "a-b", "vf3-x"} {
		for _, vf := range []int{-1, 0, 7, 12} {
			if n, v, ok := ParseVPFAlias(VPFAlias(name, vf)); n != name || v != vf || !ok {
				t.Errorf("%s is read as %q, %d, %v", VPFAlias(name, vf), n, v, ok)
			}
		}
	}
	for _, alias := range []string{
		"", "ua-vpf-", "ua-vpf--pf", "ua-vpf-a", "ua-vpf-a-vf", "ua-vpf-a-vf-1", "ua-vpf-a-vf01", "ua-vpf-a-vf1x",
		"ua-net0",
	} {
		if n, v, ok := ParseVPFAlias(alias); ok {
			t.Errorf("%q is read as %q, %d", alias, n, v)
		}
	}
}
