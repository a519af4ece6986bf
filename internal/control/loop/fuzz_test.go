package loop

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/control/placement"
	"sluice/internal/model"
)

// ram is a journalFile in memory.
type ram struct {
	data []byte
	at   int
}

func (r *ram) Read(b []byte) (int, error) {
	n := copy(b, r.data[r.at:])
	if r.at += n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *ram) Write(b []byte) (int, error) { r.data = append(r.data, b...); return len(b), nil }
func (r *ram) Truncate(n int64) error      { r.data = r.data[:n]; return nil }
func (r *ram) Sync() error                 { return nil }
func (r *ram) Close() error                { return nil }

// A journal that can be read can be written on, and then says what it said before and
// what was written.
func FuzzJournal(f *testing.F) {
	m := model.Move{Kind: model.MovePlug, VM: "a", VF: model.VFID{PF: "p", Index: 1}}
	begin, _ := encodeLine(entry{Begin: &m})
	end, _ := encodeLine(entry{End: &m})
	f.Add(begin)
	f.Add(slices.Concat(begin, end))
	f.Add(slices.Concat(begin, begin[:20]))
	f.Add([]byte(`{"begin":{"kind":"plug","vm":"a"}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		j := &FileJournal{file: &ram{data: bytes.Clone(data)}, rewrite: maxJournal}
		if _, err := j.read(); err != nil {
			return
		}
		if j.good > int64(len(data)) || j.torn != (j.good < int64(len(data))) {
			t.Fatalf("%d of %d bytes are good, torn %v", j.good, len(data), j.torn)
		}
		was := slices.Clone(j.open)
		if err := j.Begin(m); err != nil {
			t.Fatal(err)
		}
		again := &FileJournal{file: &ram{data: j.file.(*ram).data}}
		if dropped, err := again.read(); dropped != nil || err != nil {
			t.Fatalf("written on, it says %v, %v", dropped, err)
		}
		if d := cmp.Diff(append(was, m), again.open); d != "" {
			t.Fatal(d)
		}
	})
}

// Whatever a recording says that a Core knew, the Core refuses it or works with it, and
// what it writes down of what it then knows can be recalled.
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
			return // numbers beyond what JSON can say
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

// work lets a Core decide on two VMs and a VF. Its moves all fail: there is no journal.
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
