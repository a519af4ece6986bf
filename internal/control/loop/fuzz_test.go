package loop

import (
	"encoding/json"
	"slices"
	"testing"

	"sluice/internal/control/placement"
	"sluice/internal/model"
)

// Whatever Memory a recording contains, the Core either refuses it or works with it, and the Memory that it writes afterwards can
// be recalled.
func FuzzMemory(f *testing.F) {
	policies := placement.Names()
	for i, policy := range policies {
		c := newCore(f, policy)
		work(c)
		f.Add(byte(i), written(f, c))
	}
	f.Add(byte(0), []byte(`{"Costs":{"a":null}}`))
	f.Add(byte(0), []byte(`{"Fails":{"a":{"Count":-1,"Until":"2001-01-01T00:00:00Z"}}}`))
	adaptive := byte(slices.Index(policies, "adaptive"))
	f.Add(adaptive, []byte(`{"Placement":{"Policies":{"br0":{"Mem":{"All":{"a":null}}}}}}`))
	f.Add(adaptive, []byte(`{"Placement":{"Policies":{"br0":{"Styles":[null]}}}}`))
	f.Add(adaptive, []byte(`{"Placement":{"Policies":{"br0":{"Leader":3}}}}`))
	f.Add(adaptive, []byte(`{"Placement":{"Policies":{"br0":null}}}`))
	f.Fuzz(func(t *testing.T, policy byte, data []byte) {
		var m Memory
		if len(data) > 4096 || json.Unmarshal(data, &m) != nil {
			return
		}
		c := newCore(t, policies[int(policy)%len(policies)])
		if c.Recall(&m) != nil {
			return
		}
		work(c)
		text, err := json.Marshal(c.Memory())
		if err != nil {
			return // numbers that JSON cannot express
		}
		var kept Memory
		if err := json.Unmarshal(text, &kept); err != nil {
			t.Fatal(err)
		}
		if err := newCore(t, c.rules.Policy).Recall(&kept); err != nil {
			t.Fatal(err)
		}
	})
}

func newCore(t testing.TB, policy string) *Core {
	t.Helper()
	o := DefaultOptions
	o.Mode = model.ModeEnforce
	c, err := NewCore(model.Rules{Policy: policy}, o, NoJournal{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// work lets a Core decide on two VMs and a VF. Its moves all fail, as there is no journal.
func work(c *Core) {
	h := &hand{Core: c, now: noon, has: map[model.VMID]int{}, vfs: 1, edit: func(s *model.Snapshot) {
		for i := range s.VMs {
			s.VMs[i].NICs[0].Virtio.RxPPS = float64(s.Time.Second() * 1000)
		}
	}}
	for range 3 {
		h.tick()
	}
}

func written(t testing.TB, c *Core) []byte {
	t.Helper()
	b, err := json.Marshal(c.Memory())
	if err != nil {
		t.Fatal(err)
	}
	return b
}
