package sluiceguest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/channel"
)

// cable simulates a virtio-serial port as the kernel presents it: without a host, reads return EOF; with the next host they work again.
// It is based on sockets.
type cable struct {
	mu     sync.Mutex
	guest  net.Conn // nil: no host
	opened int
}

func (c *cable) open() (port, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened++
	return c, nil
}

// plug connects a host, and returns the host's end.
func (c *cable) plug(t testing.TB) net.Conn {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	conns := [2]net.Conn{}
	for i, fd := range pair {
		f := os.NewFile(uintptr(fd), "port")
		if conns[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.guest = conns[0]
	t.Cleanup(func() { _ = conns[1].Close() })
	return conns[1]
}

func (c *cable) now() net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.guest
}

func (c *cable) connected() (bool, error) { return c.now() != nil, nil }

func (c *cable) Read(p []byte) (int, error) {
	conn := c.now()
	if conn == nil {
		return 0, io.EOF
	}
	n, err := conn.Read(p)
	if errors.Is(err, io.EOF) {
		c.mu.Lock()
		c.guest = nil
		c.mu.Unlock()
		_ = conn.Close()
	}
	return n, err
}

func (c *cable) Write(p []byte) (int, error) {
	if conn := c.now(); conn != nil {
		return conn.Write(p)
	}
	return 0, os.ErrDeadlineExceeded
}

func (c *cable) SetReadDeadline(time.Time) error { return nil }

func (c *cable) SetWriteDeadline(t time.Time) error {
	if conn := c.now(); conn != nil {
		return conn.SetWriteDeadline(t)
	}
	return nil
}

func (c *cable) Close() error {
	if conn := c.now(); conn != nil {
		return conn.Close()
	}
	return nil
}

// daemon simulates the daemon on the host.
type daemon struct {
	welcome channel.Welcome
	mu      sync.Mutex
	hellos  []channel.Hello
	asked   []channel.Attach
	counted []channel.Counters
	delay   func()
}

func (d *daemon) Hello(_ context.Context, h channel.Hello) (channel.Welcome, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hellos = append(d.hellos, h)
	return d.welcome, nil
}

func (d *daemon) Attach(_ context.Context, a channel.Attach) (channel.Attached, error) {
	if d.delay != nil {
		d.delay()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, a)
	if a.VLAN == 666 {
		return channel.Attached{}, &channel.Error{
			Code: channel.CodeDenied, Text: "VLAN 666 is not among those of this VM",
			Remedy: "ask the host's administrator",
		}
	}
	return channel.Attached{MAC: "52:54:00:00:00:01", VLAN: a.VLAN}, nil
}

func (d *daemon) Detach(context.Context, channel.Detach) error { return nil }

func (d *daemon) List(context.Context) ([]channel.Held, error) {
	return []channel.Held{{VF: channel.VF{PF: "52:54:00:ab:00:01", Index: 1}, MAC: "52:54:00:00:00:01", Owner: "c1/net1"}}, nil
}

func (d *daemon) Counters(_ context.Context, c channel.Counters) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counted = append(d.counted, c)
}

func (d *daemon) seen(what func() bool) func() bool {
	return func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return what()
	}
}

// host serves the daemon at the cable's other end until leave is called.
func host(t testing.TB, c *cable, d *daemon) (leave func()) {
	t.Helper()
	conn := c.plug(t)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = channel.Serve(ctx, conn, channel.Dispatch(d), channel.Limits{Requests: 1000}) })
	leave = func() {
		cancel()
		wg.Wait()
	}
	t.Cleanup(leave)
	return leave
}

// service runs the uplink and the socket until the test ends.
func service(t testing.TB, open func() (port, error), change func(*uplink)) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "guest.sock")
	ctx, cancel := context.WithCancel(context.Background())
	l, err := listen(ctx, socket)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(testWriter{t}, nil))
	up := &uplink{open: open, hello: channel.Hello{Program: "g1", Boot: "b1"}, log: log, again: againIn}
	if change != nil {
		change(up)
	}
	var wg sync.WaitGroup
	wg.Go(func() { up.run(ctx) })
	wg.Go(func() {
		if err := serveLocal(ctx, l, forwarder{up}, log); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return socket
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func dial(t testing.TB, socket string) *channel.Client {
	t.Helper()
	c, err := channel.Dial(within(t, patience), socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// code returns the code of a refusal, "" if there was none.
func code(err error) string {
	var refused *channel.Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func hello(t testing.TB, c *channel.Client) string {
	t.Helper()
	return code(c.Call(within(t, patience), channel.MethodHello, channel.Hello{}, nil))
}

func TestRequestsGoToTheDaemonAndBack(t *testing.T) {
	noLeaks(t)
	c, d := &cable{}, &daemon{welcome: channel.Welcome{Program: "h1"}}
	socket := service(t, c.open, nil)
	client := dial(t, socket)
	begin := time.Now()
	err := client.Call(within(t, patience), channel.MethodAttach, channel.Attach{Owner: "c1/net1"}, nil)
	if code(err) != channel.CodeNoDaemon || time.Since(begin) > 10*time.Second {
		t.Errorf("without a daemon: %v after %v", err, time.Since(begin))
	}
	leave := host(t, c, d)
	eventually(t, "the daemon is there", func() bool { return hello(t, client) == "" })
	var a channel.Attached
	ask := channel.Attach{VF: channel.VF{PF: "52:54:00:ab:00:01", Index: 1}, Owner: "c1/net1", VLAN: 30}
	if err := client.Call(within(t, patience), channel.MethodAttach, ask, &a); err != nil || a.VLAN != 30 {
		t.Errorf("attach: %+v, %v", a, err)
	}
	ask.VLAN = 666
	err = client.Call(within(t, patience), channel.MethodAttach, ask, &a)
	if code(err) != channel.CodeDenied || !strings.Contains(err.Error(), "VLAN 666 is not among") {
		t.Errorf("a refusal of the daemon: %v", err)
	}
	if held, err := client.List(within(t, patience)); err != nil || len(held) != 1 {
		t.Errorf("list: %v, %v", held, err)
	}
	if err := client.Call(within(t, patience), channel.MethodCounters, channel.Counters{}, nil); code(err) != channel.CodeInvalid {
		t.Errorf("counters of a local client: %v", err)
	}
	leave()
	eventually(t, "the daemon is gone", func() bool { return hello(t, client) == channel.CodeNoDaemon })
	host(t, c, d)
	eventually(t, "the daemon is back", func() bool { return hello(t, client) == "" })
	if d.hellos[0] != (channel.Hello{Program: "g1", Boot: "b1"}) {
		t.Errorf("hello: %+v", d.hellos[0])
	}
	if c.opened != 1 {
		t.Errorf("the port was opened %d times; once does for all hosts", c.opened)
	}
}

// The daemon goes away during a request: the client learns it at once, and may retry.
func TestDaemonThatGoesMeanwhile(t *testing.T) {
	noLeaks(t)
	c := &cable{}
	under, release := make(chan struct{}), make(chan struct{})
	d := &daemon{delay: func() {
		close(under)
		<-release
	}}
	client := dial(t, service(t, c.open, nil))
	leave := host(t, c, d)
	eventually(t, "the daemon is there", func() bool { return hello(t, client) == "" })
	var wg sync.WaitGroup
	wg.Go(func() {
		<-under
		leave()
	})
	err := client.Call(within(t, patience), channel.MethodAttach, channel.Attach{Owner: "c1/net1"}, nil)
	close(release)
	wg.Wait()
	if code(err) != channel.CodeFailed {
		t.Errorf("%v", err)
	}
}

// Data that an earlier process of either side left in the channel does no harm.
func TestRemainsOnTheLine(t *testing.T) {
	noLeaks(t)
	c := &cable{}
	client := dial(t, service(t, c.open, nil))
	conn := c.plug(t)
	if _, err := conn.Write([]byte("9,\"body\":{}}\n{\"v\":1,\"id\":5,\"bo")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = channel.Serve(ctx, conn, channel.Dispatch(&daemon{}), channel.Limits{}) })
	defer wg.Wait()
	defer cancel()
	eventually(t, "the daemon is there", func() bool { return hello(t, client) == "" })
}

func TestDaemonOfAnotherVersion(t *testing.T) {
	noLeaks(t)
	c := &cable{}
	client := dial(t, service(t, c.open, nil))
	conn := c.plug(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for in := channel.NewReader(conn); ; {
			m, err := in.Next()
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "{\"v\":2,\"id\":%d,\"error\":{\"code\":\"version\",\"text\":\"no\"}}\n", m.ID)
		}
	})
	defer wg.Wait()
	defer conn.Close()
	eventually(t, "the versions are named", func() bool {
		err := client.Call(within(t, patience), channel.MethodHello, channel.Hello{}, nil)
		return code(err) == channel.CodeNoDaemon && strings.Contains(err.Error(), "speaks version 2 of the protocol, this one version 1")
	})
}

func TestCountersAreSentWhereTheDaemonAsks(t *testing.T) {
	noLeaks(t)
	c, d := &cable{}, &daemon{welcome: channel.Welcome{Counters: 1}}
	service(t, c.open, func(u *uplink) {
		u.counters = func(context.Context) (channel.Counters, error) {
			return channel.Counters{Interfaces: []channel.Interface{{Name: "eth0", Backlog: 7}}}, nil
		}
	})
	host(t, c, d)
	eventually(t, "two reports", d.seen(func() bool { return len(d.counted) >= 2 }))
	if got := d.counted[0].Interfaces; len(got) != 1 || got[0].Backlog != 7 {
		t.Errorf("%+v", got)
	}
}

// If the daemon was replaced or reconfigured without the connection showing it, the next hello tells.
func TestHelloIsSaidAgain(t *testing.T) {
	noLeaks(t)
	c, d := &cable{}, &daemon{}
	socket := service(t, c.open, func(u *uplink) {
		u.again = 20 * time.Millisecond
	})
	client := dial(t, socket)
	host(t, c, d)
	eventually(t, "the daemon is there", func() bool { return hello(t, client) == "" })
	d.mu.Lock()
	d.welcome = channel.Welcome{Program: "h2"}
	d.mu.Unlock()
	eventually(t, "its new program is known", func() bool {
		var w channel.Welcome
		return client.Call(within(t, patience), channel.MethodHello, channel.Hello{}, &w) == nil && w.Program == "h2"
	})
}

// More clients than are served at a time all get their answers.
func TestManyClients(t *testing.T) {
	noLeaks(t)
	c := &cable{}
	socket := service(t, c.open, nil)
	first := dial(t, socket)
	host(t, c, &daemon{})
	eventually(t, "the daemon is there", func() bool { return hello(t, first) == "" })
	var wg sync.WaitGroup
	for range 2 * atMost {
		wg.Go(func() {
			client, err := channel.Dial(within(t, patience), socket)
			if err != nil {
				t.Error(err)
				return
			}
			defer client.Close()
			if err := client.Call(within(t, patience), channel.MethodAttach, channel.Attach{Owner: "a/b"}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
