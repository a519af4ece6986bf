package channel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/tests/testkit"
)

// desk simulates a daemon: it remembers owners.
type desk struct {
	mu     sync.Mutex
	owners map[int]string
	held   []Held // what List returns in addition
	calls  int
	delay  func(ctx context.Context)
	failed error
}

func (d *desk) enter(ctx context.Context) func() {
	if d.delay != nil {
		d.delay(ctx)
	}
	d.mu.Lock()
	d.calls++
	return d.mu.Unlock
}

func (d *desk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

func (d *desk) Hello(ctx context.Context, h Hello) (Welcome, error) {
	defer d.enter(ctx)()
	return Welcome{Program: "desk for " + h.Program}, d.failed
}

func (d *desk) Attach(ctx context.Context, a Attach) (Attached, error) {
	defer d.enter(ctx)()
	if have := d.owners[a.VF.Index]; have != "" && have != a.Owner {
		return Attached{}, &Error{Code: CodeBusy, Text: "VF 0 is held by " + have}
	}
	if d.owners == nil {
		d.owners = map[int]string{}
	}
	d.owners[a.VF.Index] = a.Owner
	return Attached{MAC: "52:54:00:00:00:01"}, d.failed
}

func (d *desk) Detach(ctx context.Context, x Detach) error {
	defer d.enter(ctx)()
	if d.owners[x.VF.Index] == x.Owner {
		delete(d.owners, x.VF.Index)
	}
	return d.failed
}

func (d *desk) List(ctx context.Context) ([]Held, error) {
	defer d.enter(ctx)()
	return d.held, d.failed
}

func (d *desk) Counters(ctx context.Context, _ Counters) { defer d.enter(ctx)() }

// serve serves a unix socket until the test ends. It returns the path and a channel of Serve's results.
func serve(t *testing.T, h Handler, l Limits) (socket string, ends <-chan error) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	results := make(chan error, 100)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { results <- Serve(ctx, conn, h, l) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		wg.Wait()
	})
	return socket, results
}

func dial(t *testing.T, socket string) *Client {
	t.Helper()
	c, err := Dial(within(t, patience), socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// raw returns a connection without a Client.
func raw(t *testing.T, socket string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

func TestRequestsOverASocket(t *testing.T) {
	socket, ends := serve(t, Dispatch(&desk{}), Limits{})
	c, ctx := dial(t, socket), within(t, patience)
	var w Welcome
	if err := c.Call(ctx, MethodHello, Hello{Program: "g1"}, &w); err != nil || w.Program != "desk for g1" {
		t.Errorf("hello: %+v, %v", w, err)
	}
	var a Attached
	ask := Attach{VF: VF{PF: "52:54:00:00:00:00"}, Owner: "c1/net1"}
	for range 2 { // the second is a replay
		if err := c.Call(ctx, MethodAttach, ask, &a); err != nil || a.MAC != "52:54:00:00:00:01" {
			t.Errorf("attach: %+v, %v", a, err)
		}
	}
	ask.Owner = "c2/net1"
	var refused *Error
	if err := c.Call(ctx, MethodAttach, ask, &a); !errors.As(err, &refused) || refused.Code != CodeBusy {
		t.Errorf("attach by another: %v", err)
	}
	for range 2 {
		if err := c.Call(ctx, MethodDetach, Detach{Owner: "c1/net1"}, nil); err != nil {
			t.Errorf("detach: %v", err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ends; err != nil {
		t.Errorf("Serve after the client closed: %v", err)
	}
	if err := c.Call(ctx, MethodHello, Hello{}, nil); err == nil {
		t.Error("a call on a closed client succeeded")
	}
}

func TestListComesInPages(t *testing.T) {
	d := &desk{}
	for i := range 255 {
		d.held = append(d.held, Held{VF: VF{PF: "52:54:00:00:00:00", Index: i}, MAC: "52:54:00:00:00:01", Owner: strings.Repeat(`"`, MaxOwner)})
	}
	socket, _ := serve(t, Dispatch(d), Limits{Requests: 1000})
	got, err := dial(t, socket).List(within(t, patience))
	if err != nil || len(got) != 255 || got[254].VF.Index != 254 {
		t.Errorf("%d VFs, %v", len(got), err)
	}
}

// Raw lines that a server answers, and those that it does not answer.
func TestAnswers(t *testing.T) {
	long := strings.Repeat("x", MaxOwner+1)
	for name, c := range map[string]struct{ in, code, text string }{
		"version":        {`{"v":2,"id":1,"method":"hello","body":{}}`, CodeVersion, "speaks version 2 of the protocol, this one version 1"},
		"no such method": {`{"v":1,"id":1,"method":"reboot"}`, CodeInvalid, `no such request: "reboot"`},
		"unknown policy": {`{"v":1,"id":1,"method":"attach","body":{"owner":"a","dscp":1}}`, CodeInvalid, `unknown field "dscp"`},
		"wrong type":     {`{"v":1,"id":1,"method":"detach","body":[1]}`, CodeInvalid, "is malformed"},
		"no owner":       {`{"v":1,"id":1,"method":"attach","body":{}}`, CodeInvalid, "the owner is not"},
		"long owner":     {`{"v":1,"id":1,"method":"attach","body":{"owner":"` + long + `"}}`, CodeInvalid, "the owner is not"},
		"odd owner":      {`{"v":1,"id":1,"method":"detach","body":{"owner":"a\u001b[2J"}}`, CodeInvalid, "the owner is not"},
		"newer hello":    {`{"v":1,"id":1,"method":"hello","body":{"program":"x","more":1}}`, "", ""},
		"newer message":  {`{"v":1,"id":1,"method":"hello","more":1}`, "", ""},
	} {
		d := &desk{}
		socket, _ := serve(t, Dispatch(d), Limits{})
		conn := raw(t, socket)
		fmt.Fprintf(conn, "garb\x00age%s\n{\"v\":1,\"id\":7}\n{\"v\":1,\"method\":\"counters\",\"body\":{}}\n%s\n", c.in, c.in)
		m, err := NewReader(conn).Next()
		switch {
		case err != nil || m.ID != 1 || m.V != Version:
			t.Errorf("%s: %+v, %v", name, m, err)
		case c.code == "" && m.Error != nil:
			t.Errorf("%s: %v", name, m.Error)
		case c.code != "" && (m.Error == nil || m.Error.Code != c.code || !strings.Contains(m.Error.Text, c.text)):
			t.Errorf("%s: %v, want %s: %s", name, m.Error, c.code, c.text)
		}
	}
}

func TestFailureTellsTheGuestNothingOfTheHost(t *testing.T) {
	socket, _ := serve(t, Dispatch(&desk{failed: errors.New("open /etc/secret")}), Limits{})
	err := dial(t, socket).Call(within(t, patience), MethodHello, Hello{}, nil)
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != CodeFailed || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

func TestAnswerTooLong(t *testing.T) {
	h := handlerFunc(func(context.Context, Method, json.RawMessage) (any, error) { return strings.Repeat("x", MaxLine), nil })
	socket, _ := serve(t, h, Limits{})
	c := dial(t, socket)
	for range 2 { // the connection survives
		var refused *Error
		if err := c.Call(within(t, patience), MethodHello, nil, nil); !errors.As(err, &refused) || refused.Code != CodeFailed {
			t.Errorf("%v", err)
		}
	}
}

type handlerFunc func(context.Context, Method, json.RawMessage) (any, error)

func (f handlerFunc) Handle(ctx context.Context, m Method, b json.RawMessage) (any, error) {
	return f(ctx, m, b)
}

// A guest that sends requests without reading the answers is disconnected when its socket is full.
func TestGuestThatNeverReads(t *testing.T) {
	socket, ends := serve(t, Dispatch(&desk{}), Limits{Requests: 1 << 20, Bytes: 1 << 30, Write: 50 * time.Millisecond})
	conn := raw(t, socket)
	go func() {
		ask := bytes.Repeat([]byte(`{"v":1,"id":1,"method":"reboot"}`+"\n"), 1000)
		for {
			if _, err := conn.Write(ask); err != nil {
				return
			}
		}
	}()
	select {
	case err := <-ends:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Serve: %v", err)
		}
	case <-time.After(patience):
		t.Error("it is still served")
	}
}

// A flood of requests is handled no faster than the limit.
func TestRequestsAreLimited(t *testing.T) {
	d := &desk{}
	socket, _ := serve(t, Dispatch(d), Limits{Requests: 10})
	conn := raw(t, socket)
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	begin := time.Now()
	for range 200 {
		fmt.Fprint(conn, `{"v":1,"id":1,"method":"hello"}`+"\n")
	}
	for d.count() < 15 {
		time.Sleep(time.Millisecond)
	}
	n := d.count()
	if most := 10 + 10*time.Since(begin).Seconds() + 1; float64(n) > most {
		t.Errorf("%d requests within %v", n, time.Since(begin))
	}
}

// counted counts the bytes read from it.
type counted struct {
	Conn
	mu sync.Mutex
	n  int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += n
	return n, err
}

func (c *counted) read() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// A flood of garbage is read no faster than the limit.
func TestBytesAreLimited(t *testing.T) {
	host, guest := net.Pipe()
	c := &counted{Conn: host}
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error)
	begin := time.Now()
	go func() { end <- Serve(ctx, c, Dispatch(&desk{}), Limits{Bytes: 8 << 10}) }()
	go func() {
		for {
			if _, err := guest.Write(bytes.Repeat([]byte{'x'}, 4096)); err != nil {
				return
			}
		}
	}()
	for c.read() < 12<<10 {
		time.Sleep(time.Millisecond)
	}
	if n, most := c.read(), (8<<10)*(2+time.Since(begin).Seconds()); float64(n) > most+1 {
		t.Errorf("%d bytes within %v", n, time.Since(begin))
	}
	cancel()
	if err := <-end; !errors.Is(err, context.Canceled) {
		t.Errorf("Serve: %v", err)
	}
	_ = guest.Close()
}

// A sender that floods for long, with garbage or with requests, is disconnected; one that stays within the limit is not.
func TestFloodIsCutOff(t *testing.T) {
	ask := []byte(`{"v":1,"method":"hello"}` + "\n")
	for name, c := range map[string]struct {
		send  []byte
		pause time.Duration
		end   error
		after time.Duration
	}{
		"garbage":   {bytes.Repeat([]byte{'x'}, 4096), 0, ErrFlood, 14 * time.Second},
		"requests":  {ask, 0, ErrFlood, time.Minute},
		"many":      {ask, 100 * time.Millisecond, nil, 0},
		"much text": {append(bytes.Repeat([]byte{' '}, 3000), '\n'), 100 * time.Millisecond, nil, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			host, guest := net.Pipe()
			begin := time.Now()
			end := make(chan error, 1)
			go func() { end <- Serve(context.Background(), host, Dispatch(&desk{}), Limits{}) }()
			for time.Since(begin) < 5*time.Minute {
				if _, err := guest.Write(c.send); err != nil {
					break
				}
				time.Sleep(c.pause)
			}
			took := time.Since(begin)
			_ = guest.Close()
			if err := <-end; !errors.Is(err, c.end) || (c.end != nil && (took < c.after*9/10 || took > c.after*12/10)) {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		})
	}
}

// Requests are handled one at a time, and within the time limit.
func TestOneRequestAtATime(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	slow := func(ctx context.Context) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		<-ctx.Done() // the time limit of a request
		mu.Lock()
		now--
		mu.Unlock()
	}
	socket, _ := serve(t, Dispatch(&desk{delay: slow}), Limits{Handle: 20 * time.Millisecond})
	c := dial(t, socket)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if err := c.Call(within(t, patience), MethodHello, Hello{}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("%d requests at a time", most)
	}
}

// Of a connection on which nothing comes, the time counts from the last request.
func TestSilentConnection(t *testing.T) {
	silent := testkit.Time(300 * time.Millisecond)
	socket, ends := serve(t, Dispatch(&desk{}), Limits{Silent: silent})
	c := dial(t, socket)
	begin := time.Now()
	for range 4 {
		time.Sleep(silent / 3)
		if err := c.Send(MethodHello, Hello{Program: "x", Boot: "y"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ends; !errors.Is(err, ErrSilent) || time.Since(begin) < silent*4/3+silent {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
}

// memory is a connection whose other side has sent all its data.
type memory struct {
	io.Reader
	bytes.Buffer // the answers
}

func (m *memory) Read(p []byte) (int, error)       { return m.Reader.Read(p) }
func (m *memory) Close() error                     { return nil }
func (m *memory) SetReadDeadline(time.Time) error  { return nil }
func (m *memory) SetWriteDeadline(time.Time) error { return nil }

// FuzzServer lets a hostile guest send anything: each answer belongs to a request, in order, and is complete.
func FuzzServer(f *testing.F) {
	for _, s := range []string{
		`{"v":1,"id":1,"method":"hello","body":{"program":"x","boot":"y"}}`,
		`{"v":1,"id":18446744073709551615,"method":"list","body":{"from":-3}}`,
		`{"v":1,"id":3,"method":"attach","body":{"vf":{"pf":"52:54:00:00:00:00","index":1},"owner":"a/b","weight":1e308}}`,
		`{"v":3,"id":4,"method":"detach","body":{"vf":{},"owner":"a/b"}}`,
		`{"v":1,"method":"counters","body":{"interfaces":[{"name":"a","rx_packets":1}]}}`,
		`{"v":1,"id":5,"method":"attach","body":null}` + "\n" + `{"v":1,"id":5,"method":"attach","body":{"owner":"\u0000"}}`,
	} {
		f.Add([]byte("x\n" + s + "\n"))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		conn := &memory{Reader: bytes.NewReader(in)}
		if err := Serve(context.Background(), conn, Dispatch(&desk{}), Limits{Requests: 1 << 30, Bytes: 1 << 30}); err != nil {
			t.Fatal(err)
		}
		answers := NewReader(bytes.NewReader(conn.Bytes()))
		for asked := NewReader(bytes.NewReader(in)); ; {
			q, err := asked.Next()
			if err != nil {
				break
			}
			if q.Method == "" || q.ID == 0 {
				continue
			}
			a, err := answers.Next()
			if err != nil || a.ID != q.ID || a.Method != "" || (a.Error != nil && (a.Error.Code == "" || a.Error.Text == "")) {
				t.Fatalf("%q is answered by %+v, %v", in, a, err)
			}
			if q.V != Version && (a.Error == nil || a.Error.Code != CodeVersion) {
				t.Fatalf("version %d is answered by %+v", q.V, a)
			}
		}
		if a, err := answers.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("%q: nobody asked for %+v, %v", in, a, err)
		}
		if n := bytes.Count(conn.Bytes(), []byte("\n\n")) + bytes.Count(conn.Bytes(), []byte("}\n")); conn.Len() > 0 && n == 0 {
			t.Fatalf("no line's end in %q", conn.Bytes())
		}
	})
}
