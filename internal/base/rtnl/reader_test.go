package rtnl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func reader(t testing.TB) *Reader {
	t.Helper()
	r, err := NewReader()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestReaderAgreesWithConn sends the same requests through both, repeatedly on one socket.
func TestReaderAgreesWithConn(t *testing.T) {
	c, r := dial(t), reader(t)
	all := NewRequest(unix.RTM_GETLINK, 0, Link(unix.AF_UNSPEC, 0))
	want, err := Dump(t.Context(), c, all, func(m Message) (string, bool) { n, _ := nameOf(m); return n, true })
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var got []string
		each := func(m Message) { n, _ := nameOf(m); got = append(got, n) }
		if err := r.Dump(all, each); err != nil || !slices.Equal(got, want) {
			t.Errorf("dump: %q, %v; want %q", got, err, want)
		}
		got = nil
		if err := r.Get(getLink("lo"), each); err != nil || !slices.Equal(got, []string{"lo"}) {
			t.Errorf("lo: %q, %v", got, err)
		}
		if err := r.Get(getLink("nosuch"), each); !errors.Is(err, unix.ENODEV) {
			t.Errorf("no such link: %v, want ENODEV", err)
		}
	}
}

// answer builds a message as received from the kernel.
func answer(typ uint16, seq uint32, data []byte) []byte {
	return (&Request{typ: typ, buf: data}).seal(nil, seq, 0)
}

func TestReaderSkipsOldAnswers(t *testing.T) {
	r := &Reader{seq: 7}
	var got []uint16
	b := slices.Concat(answer(16, 6, nil), answer(17, 7, nil), answer(unix.NLMSG_DONE, 7, make([]byte, 4)))
	done, err := r.take(b, true, func(m Message) { got = append(got, m.Type) })
	if !done || err != nil || !slices.Equal(got, []uint16{17}) {
		t.Errorf("took %v, done %v, %v; want message 17 only", got, done, err)
	}
	done, err = r.take(answer(16, 7, []byte{1, 2, 3, 4})[:18], true, func(Message) {})
	if !done || !errors.Is(err, errTruncated) {
		t.Errorf("cut off: done %v, %v; want errTruncated", done, err)
	}
}

// TestReaderSeesInterruptedDumps: the kernel marks the messages after a change, or only the last one, NLMSG_DONE.
func TestReaderSeesInterruptedDumps(t *testing.T) {
	const seq = 7
	mark := func(b []byte) []byte {
		binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_DUMP_INTR)
		return b
	}
	link, done := answer(16, seq, nil), answer(unix.NLMSG_DONE, seq, make([]byte, 4))
	for name, b := range map[string][]byte{
		"a message": slices.Concat(mark(slices.Clone(link)), done), "the end": slices.Concat(link, mark(slices.Clone(done))),
	} {
		r := &Reader{seq: seq}
		if ended, err := r.take(b, true, func(Message) {}); !ended || err != nil || !r.interrupted {
			t.Errorf("%s marked: ended %v, %v, interrupted %v", name, ended, err, r.interrupted)
		}
	}
	r := &Reader{seq: seq}
	if _, err := r.take(slices.Concat(mark(answer(16, seq-1, nil)), link, done), true, func(Message) {}); err != nil || r.interrupted {
		t.Errorf("an earlier dump was interrupted, this one %v, %v", r.interrupted, err)
	}
}

// FuzzAnswers feeds datagrams to a Reader, which must return no byte twice and none that was not received.
func FuzzAnswers(f *testing.F) {
	f.Add(answer(unix.NLMSG_ERROR, 7, []byte{0xea, 0xff, 0xff, 0xff, 16, 0, 0, 0}), true)
	f.Add(slices.Concat(answer(16, 7, []byte("abcd")), answer(unix.NLMSG_DONE, 7, make([]byte, 4))), true)
	f.Add(binary.NativeEndian.AppendUint32(nil, 1<<31), false)
	f.Fuzz(func(t *testing.T, b []byte, dump bool) {
		r, rest := &Reader{seq: 7}, b
		_, _ = r.take(b, dump, func(m Message) {
			at := bytes.Index(rest, m.Data)
			if at < 0 {
				t.Fatalf("handed out %x, which is not left of %x", m.Data, b)
			}
			rest = rest[at+len(m.Data):]
		})
	})
}
