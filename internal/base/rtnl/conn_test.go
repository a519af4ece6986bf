package rtnl

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// These tests work in any network namespace because they change nothing.

func dial(t testing.TB) *Conn {
	t.Helper()
	c, err := Dial(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func getLink(name string) *Request {
	return NewRequest(unix.RTM_GETLINK, 0, Link(unix.AF_UNSPEC, 0)).String(unix.IFLA_IFNAME, name)
}

func nameOf(m Message) (string, error) {
	return string(CString(Attr(Body(m.Data, unix.SizeofIfInfomsg), unix.IFLA_IFNAME))), nil
}

func TestGetAndDumpAgree(t *testing.T) {
	c := dial(t)
	name, err := Get(t.Context(), c, getLink("lo"), nameOf)
	if err != nil || name != "lo" {
		t.Fatalf("asked for lo: %q, %v", name, err)
	}
	names, err := Dump(t.Context(), c, NewRequest(unix.RTM_GETLINK, 0, Link(unix.AF_UNSPEC, 0)),
		func(m Message) (string, bool) { n, _ := nameOf(m); return n, true })
	if err != nil || !slices.Contains(names, "lo") {
		t.Fatalf("dump without lo: %q, %v", names, err)
	}
}

func TestErrorsKeepErrnoAndText(t *testing.T) {
	c := dial(t)
	_, err := Get(t.Context(), c, getLink("nosuch"), nameOf)
	if !errors.Is(err, unix.ENODEV) {
		t.Errorf("no such link: %v, want ENODEV", err)
	}
	// A neighbour without an address: the kernel's answer contains a message.
	bad := NewRequest(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE, Neigh(unix.AF_BRIDGE, 1, unix.NUD_PERMANENT, unix.NTF_SELF))
	err = c.Do(t.Context(), bad)
	var e *netlink.OpError
	if !errors.As(err, &e) || !errors.Is(err, unix.EINVAL) || !strings.Contains(e.Message, "address") {
		t.Errorf("entry without address: %v, want EINVAL with the kernel's text", err)
	}
	// The socket is still usable.
	if _, err := Get(t.Context(), c, getLink("lo"), nameOf); err != nil {
		t.Error("after errors:", err)
	}
}

func TestErrorOfDecoder(t *testing.T) {
	c := dial(t)
	mine := errors.New("mine")
	_, err := Get(t.Context(), c, getLink("lo"), func(Message) (int, error) { return 0, mine })
	if !errors.Is(err, mine) {
		t.Errorf("error %v, want the decoder's", err)
	}
}

func TestClosed(t *testing.T) {
	c := dial(t)
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Do(t.Context(), getLink("lo")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("request on a closed socket: %v, want os.ErrClosed", err)
	}
}

// TestStuckCall simulates a request that the kernel does not finish: its caller must return at its deadline, others wait no
// longer than their contexts, Close does not wait at all, and the socket is closed once the call ends.
func TestStuckCall(t *testing.T) {
	defer goleak.VerifyNone(t)
	c, err := Dial(1)
	if err != nil {
		t.Fatal(err)
	}
	sock := c.only().sock
	stuck, ended := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		_, err := with(ctx, c, func(*Reader) (int, error) { <-stuck; return 1, nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("stuck call: %v, want context.Canceled", err)
		}
	}()
	for len(c.idle) != 0 { // until it has the socket
		runtime.Gosched()
	}
	brief, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if err := c.Do(brief, getLink("lo")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("call behind a stuck one: %v, want DeadlineExceeded", err)
	}
	cancel()
	<-ended
	_ = c.Close()
	if !isOpen(sock) {
		t.Error("the socket was closed under the stuck call")
	}
	close(stuck)
	for deadline := time.Now().Add(5 * time.Second); isOpen(sock); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the socket is still open after the stuck call ended")
		}
	}
}

// only returns the single socket of an idle Conn.
func (c *Conn) only() *Reader {
	s := <-c.idle
	c.idle <- s
	return s
}

// TestStuckCallDelaysNoOther checks that a stuck call does not delay others while there is another socket.
func TestStuckCallDelaysNoOther(t *testing.T) {
	defer goleak.VerifyNone(t)
	c, err := Dial(2)
	if err != nil {
		t.Fatal(err)
	}
	stuck, ended := make(chan struct{}), make(chan error)
	go func() {
		_, err := with(t.Context(), c, func(*Reader) (int, error) { <-stuck; return 1, nil })
		ended <- err
	}()
	for len(c.idle) != 1 {
		runtime.Gosched()
	}
	for range 3 {
		if name, err := Get(t.Context(), c, getLink("lo"), nameOf); err != nil || name != "lo" {
			t.Errorf("beside a stuck call: %q, %v", name, err)
		}
	}
	close(stuck)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	_ = c.Close()
}

func isOpen(s *netlink.Conn) bool { return s.SetReadDeadline(time.Time{}) == nil }

// TestAnswerToAnEarlierRequest checks that a late answer to an abandoned request is not taken for that to the next one.
func TestAnswerToAnEarlierRequest(t *testing.T) {
	c := dial(t)
	r := c.only()
	r.out = getLink("lo").seal(nil, 99, 0)
	if err := errors.Join(r.raw.Write(r.send), r.err); err != nil {
		t.Fatal(err)
	}
	if name, err := Get(t.Context(), c, getLink("nosuch"), nameOf); err == nil {
		t.Errorf("asked for what is not there: %q", name)
	}
	if name, err := Get(t.Context(), c, getLink("lo"), nameOf); err != nil || name != "lo" {
		t.Errorf("asked for lo: %q, %v", name, err)
	}
}

func TestListenerHearsAndEnds(t *testing.T) {
	defer goleak.VerifyNone(t)
	l, err := Listen(unix.RTNLGRP_LINK)
	if err != nil {
		t.Fatal(err)
	}
	l.Drain()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Receive(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Receive with an ended context: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	for err = nil; err == nil; { // this machine's links may change meanwhile
		_, err = l.Receive(ctx)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Receive after its deadline: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if !l.Drain() {
		t.Error("a closed listener says that nothing changed")
	}
}

func FuzzAttrs(f *testing.F) {
	f.Add(NewRequest(0, 0, nil).U32(1, 2).String(3, "x").Nest(4, func(r *Request) { r.U8(5, 6) }).Message().Data)
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		for _, v := range Attrs(b) {
			n += unix.SizeofRtAttr + len(v)
			_, _, _, _ = U8(v), U16(v), U32(v), U64(v)
			if len(CString(v)) > len(v) {
				t.Error("string longer than its attribute")
			}
		}
		if n > len(b) {
			t.Errorf("%d bytes of attributes out of %d", n, len(b))
		}
	})
}

// TestRequestIsReadBack encodes attributes and decodes them.
func TestRequestIsReadBack(t *testing.T) {
	r := NewRequest(1, 2, []byte{9, 9, 9, 9}).U8(1, 11).U16(2, 22).U32(3, 33).String(4, "four")
	r.Nest(5, func(r *Request) { r.U32(6, 66).U8(7, 77) }).U8(8, 88)
	b := Body(r.Message().Data, 4)
	inner := Attr(b, 5)
	got := []uint64{
		uint64(U8(Attr(b, 1))), uint64(U16(Attr(b, 2))), uint64(U32(Attr(b, 3))),
		uint64(U32(Attr(inner, 6))), uint64(U8(Attr(inner, 7))), uint64(U8(Attr(b, 8))),
	}
	if want := []uint64{11, 22, 33, 66, 77, 88}; !slices.Equal(got, want) {
		t.Errorf("read back %v, want %v", got, want)
	}
	if s := string(CString(Attr(b, 4))); s != "four" {
		t.Errorf("read back %q", s)
	}
	if Attr(b, 99) != nil || Body(b, 1000) != nil || U64([]byte{1}) != 0 {
		t.Error("found what is not there")
	}
}
