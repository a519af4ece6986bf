package ovs

import (
	"maps"
	"testing"

	"sluice/internal/model"
)

func TestFixedIn(t *testing.T) {
	got := fixedIn(` port  VLAN  MAC                Age
    2     0  52:54:00:00:00:aa  static
    1     7  52:54:00:00:00:bb   12
LOCAL     0  52:54:00:00:00:cc  static
    3     0  nonsense           static
`)
	want := map[model.MAC]bool{{0x52, 0x54, 0, 0, 0, 0xaa}: true, {0x52, 0x54, 0, 0, 0, 0xcc}: true}
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
