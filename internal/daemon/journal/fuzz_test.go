package journal

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/model"
)

// ram is a file in memory.
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

// A journal that can be read can be appended to, and then contains what it contained before and what was appended.
func FuzzJournal(f *testing.F) {
	m := model.Move{Kind: model.MovePlug, VM: "a", VF: model.VFID{PF: "p", Index: 1}}
	begin, _ := encodeLine(entry{Begin: &m})
	end, _ := encodeLine(entry{End: &m})
	f.Add(begin)
	f.Add(slices.Concat(begin, end))
	f.Add(slices.Concat(begin, begin[:20]))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		j := &File{file: &ram{data: bytes.Clone(data)}, rewrite: maxJournal}
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
		again := &File{file: &ram{data: j.file.(*ram).data}}
		if dropped, err := again.read(); dropped != nil || err != nil {
			t.Fatalf("written on, it says %v, %v", dropped, err)
		}
		if d := cmp.Diff(append(was, m), again.open); d != "" {
			t.Fatal(d)
		}
	})
}
