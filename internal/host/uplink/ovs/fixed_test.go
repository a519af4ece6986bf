package ovs

import (
	"slices"
	"testing"

	"sluice/internal/model"
)

func TestFixedIn(t *testing.T) {
	got := fixedIn(` port  VLAN  MAC                Age
    2     0  52:54:00:00:00:aa  static
    1     7  52:54:00:00:00:bb   12
LOCAL     0  52:54:00:00:00:cc  static
    3     0  nonsense           static
    3     x  52:54:00:00:00:dd  static
`)
	want := []entry{{"2", 0, model.MAC{0x52, 0x54, 0, 0, 0, 0xaa}}, {"LOCAL", 0, model.MAC{0x52, 0x54, 0, 0, 0, 0xcc}}}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// Only entries at the same port are left from an earlier VLAN of it: another VM may have the same MAC in another VLAN.
func TestOthersOf(t *testing.T) {
	a, b := model.MAC{2, 1}, model.MAC{2, 2}
	all := []entry{{"2", 7, a}, {"2", 0, a}, {"2", 0, b}, {"3", 9, a}}
	if got := othersOf(all, entry{vlan: 7, mac: a}); !slices.Equal(got, []entry{{"2", 0, a}}) {
		t.Errorf("%v", got)
	}
	if got := othersOf(all[1:], entry{vlan: 7, mac: a}); len(got) > 0 {
		t.Errorf("without an entry of its own: %v", got)
	}
}
