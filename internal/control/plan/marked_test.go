package plan

import (
	"testing"

	"pgregory.net/rapid"

	"sluice/internal/model"
)

// A marked list behaves like a map from MAC to bool, for any sequence of lists.
func TestMarkedIsAMap(t *testing.T) {
	macs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) model.MAC { return model.MAC{5: byte(rapid.IntRange(0, 5).Draw(t, "mac"))} }), 0, 6)
	rapid.Check(t, func(t *rapid.T) {
		var m *marked
		for range 5 {
			list := macs.Draw(t, "list")
			m = m.unmarked(list)
			simple := map[model.MAC]bool{}
			for _, mac := range list {
				simple[mac] = false
			}
			for _, mac := range macs.Draw(t, "marks") {
				_, have := simple[mac]
				if m.mark(mac) != have {
					t.Fatalf("%s is in %v: %v", mac, list, !have)
				}
				if have {
					simple[mac] = true
				}
			}
			for i, mac := range list {
				if m.is(i) != simple[mac] {
					t.Fatalf("%s of %v is marked: %v", mac, list, m.is(i))
				}
			}
		}
	})
}
