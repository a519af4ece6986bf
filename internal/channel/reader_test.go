package channel

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// all reads until the end.
func all(t testing.TB, r *Reader) (ids []uint64) {
	t.Helper()
	for {
		m, err := r.Next()
		if errors.Is(err, io.EOF) {
			return ids
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, m.ID)
	}
}

func TestReaderFindsItsWayAgain(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []uint64
	}{
		"messages":         {"{\"v\":1,\"id\":1}\n{\"v\":1,\"id\":2}\n", []uint64{1, 2}},
		"begins in a line": {"id\":7}\n{\"v\":1,\"id\":1}\n", []uint64{1}},
		"no end":           {"{\"v\":1,\"id\":1}\n{\"v\":1,\"id\":2}", []uint64{1}},
		"garbage": {
			"\x00\xff{{{\n\n[1]\n3\n\"x\"\nnull\n" + `{"v":"1","id":1}` + "\n" + `{"v":1,"id":-1}` + "\n" + `{"id":9}` + "\n" + `{"v":1,"id":1}` + "\n",
			[]uint64{1},
		},
		"unfinished, then ok": {"{\"v\":1,\"id\":5,\"bo\n{\"v\":1,\"id\":1}\n", []uint64{1}},
		"two on a line":       {"{\"v\":1,\"id\":1}{\"v\":1,\"id\":2}\n{\"v\":1,\"id\":3}\n", []uint64{3}},
		"longest":             {line(MaxLine, 1) + line(10, 2), []uint64{1, 2}},
		"too long":            {line(MaxLine+1, 1) + line(10, 2), []uint64{2}},
		"very long":           {line(10*MaxLine, 1) + line(10, 2), []uint64{2}},
		"too long, no end":    {line(10, 2) + strings.Repeat("x", 3*MaxLine), []uint64{2}},
		"carriage return":     {"{\"v\":1,\"id\":1}\r\n", []uint64{1}},
	} {
		for how, r := range map[string]io.Reader{
			"whole": strings.NewReader(c.in), "bytewise": iotest.OneByteReader(strings.NewReader(c.in)),
			"halves": iotest.HalfReader(strings.NewReader(c.in)),
		} {
			if diff := cmp.Diff(c.want, all(t, NewReader(r))); diff != "" {
				t.Errorf("%s, %s: %s", name, how, diff)
			}
		}
	}
}

// line returns a message of size bytes or slightly more, with its newline.
func line(size int, id int) string {
	text := string(rune('0'+id)) + `}` + "\n"
	return `{"v":1,` + strings.Repeat(" ", max(0, size-len(`{"v":1,"id":`)-len(text))) + `"id":` + text
}

// flood is an almost endless line.
type flood struct{ left int }

func (f *flood) Read(p []byte) (int, error) {
	if f.left <= 0 {
		return 0, io.EOF
	}
	f.left -= len(p)
	for i := range p {
		p[i] = '{'
	}
	return len(p), nil
}

func TestFloodWithoutLineEndTakesNoMemory(t *testing.T) {
	r := NewReader(io.MultiReader(&flood{256 << 20}, strings.NewReader("\n{\"v\":1,\"id\":1}\n")))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if ids := all(t, r); len(ids) != 1 || ids[0] != 1 {
		t.Errorf("read %v after the flood", ids)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("a line of 256 MiB took %d bytes", n)
	}
}

// FuzzReader compares Reader with one that buffers everything.
func FuzzReader(f *testing.F) {
	f.Add([]byte("{\"v\":1,\"id\":1}\n{\"v\":1,\"id\":2}\n"), uint8(3))
	f.Add([]byte("x\n\n{\"v\":1,\"id\":1,\"body\":{\"a\":[1,2,3,4,5,6,7,8,9,10,11,12]}}\n{\"v\":2}\n{\"v\""), uint8(0))
	f.Fuzz(func(t *testing.T, in []byte, chunk uint8) {
		const longest = 32
		var want []uint64
		for l := range bytes.Lines(in) {
			if m, ok := parse(l); ok && len(l) <= longest && l[len(l)-1] == '\n' {
				want = append(want, m.ID)
			}
		}
		got := all(t, &Reader{bufio.NewReaderSize(&chunks{in, int(chunk) + 1}, longest)})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q in pieces of %d: %s", in, chunk+1, diff)
		}
	})
}

// chunks returns a few bytes at a time.
type chunks struct {
	left []byte
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.left[:min(c.size, len(c.left))])
	c.left = c.left[n:]
	return n, nil
}
