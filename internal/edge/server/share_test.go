package server_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/edge/client"
	"sluice/internal/edge/edgetest"
	"sluice/internal/edge/server"
	"sluice/internal/tests/testkit"
)

// silent opens connections as a user and sends nothing; refused ones are closed.
func silent(t *testing.T, network, address string, uid, n int) {
	t.Helper()
	var conns []net.Conn
	err := as(uid, 60, func() error {
		for range n {
			c, err := net.Dial(network, address) // does not block for long: the backlog is served
			if err != nil {
				return err
			}
			conns = append(conns, c)
		}
		return nil
	})
	t.Cleanup(func() {
		for _, c := range conns {
			_ = c.Close()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// statusWithin requests the status as a user until there is an answer.
func statusWithin(t *testing.T, socket string, uid int, limit time.Duration) {
	t.Helper()
	begun := time.Now()
	code, err := requestAs(t, uid, 60, socket, http.MethodGet, "/v1/status", "")
	if code != http.StatusOK || err != nil || time.Since(begun) > testkit.Time(limit) {
		t.Errorf("uid %d: %d, %v after %s", uid, code, err, time.Since(begun))
	}
}

// refused checks that a user is told about too many connections. While many connections are refused at once, some get no
// message.
func refused(t *testing.T, socket string, uid int) {
	t.Helper()
	var code int
	var err error
	for deadline := time.Now().Add(testkit.Time(2 * time.Second)); code != http.StatusServiceUnavailable && time.Now().Before(deadline); {
		if code, err = requestAs(t, uid, 60, socket, http.MethodGet, "/v1/status", ""); code == http.StatusOK {
			break
		}
	}
	if code != http.StatusServiceUnavailable {
		t.Errorf("uid %d beyond its share: %d, %v", uid, code, err)
	}
}

// A user with read access cannot lock out others: silent connections count against their user.
func TestOneUserShutsNobodyOut(t *testing.T) {
	needRoot(t)
	o := options(edgetest.NewBackend(edgetest.View()))
	o.Socket, o.Group = filepath.Join(socketDir(t), "s.sock"), "games"
	serve(t, o)
	silent(t, "unix", o.Socket, 65534, 2000)
	statusWithin(t, o.Socket, 0, 2*time.Second)
	statusWithin(t, o.Socket, 65533, 2*time.Second)
	refused(t, o.Socket, 65534)
}

// Root has a share, however many users there are.
func TestManyUsersDoNotShutRootOut(t *testing.T) {
	needRoot(t)
	o := options(edgetest.NewBackend(edgetest.View()))
	o.Socket, o.Group = filepath.Join(socketDir(t), "s.sock"), "games"
	serve(t, o)
	for i := range server.PerAll/server.PerPeer + 4 {
		silent(t, "unix", o.Socket, 60000+i, server.PerPeer)
	}
	refused(t, o.Socket, 65533)
	statusWithin(t, o.Socket, 0, 2*time.Second)
}

// Silent connections and incomplete requests end soon and free their slot.
func TestHalfARequestEndsSoon(t *testing.T) {
	needRoot(t)
	o := options(edgetest.NewBackend(edgetest.View()))
	o.Socket = filepath.Join(socketDir(t), "s.sock")
	serve(t, o)
	var wg sync.WaitGroup
	begun := time.Now()
	for i := range server.PerPeer {
		wg.Go(func() {
			c, err := net.Dial("unix", o.Socket) // does not block
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close() // a test's connection
			if i%2 == 0 {
				_, _ = io.WriteString(c, "GET /v1/status HTTP/1.1\r\nHost: sluice\r\nX-Slow: ")
			}
			_, _ = io.Copy(io.Discard, c) // until the server has had enough
		})
	}
	wg.Wait()
	if took := time.Since(begun); took > testkit.Time(15*time.Second) {
		t.Errorf("they ended after %s", took)
	}
	statusWithin(t, o.Socket, 0, 5*time.Second)
}

func TestPlacesComeBack(t *testing.T) {
	needRoot(t)
	o := options(edgetest.NewBackend(edgetest.View()))
	o.Socket = filepath.Join(socketDir(t), "s.sock")
	serve(t, o)
	c := client.New(o.Socket)
	for range 5 * server.PerPeer { // a slot may be free before its user's client sees the connection end
		if _, err := c.Status(t.Context()); err != nil && !strings.Contains(err.Error(), "too many") {
			t.Fatal(err)
		}
	}
}

// Each open page holds a stream, and leaves the user's other slots to requests.
func TestStreamsLeaveRoomForRequests(t *testing.T) {
	o := options(edgetest.NewBackend(edgetest.View()))
	o.Socket = filepath.Join(socketDir(t), "s.sock")
	serve(t, o)
	c := client.New(o.Socket)
	listen := func() (stop func(), err error) {
		ctx, cancel := context.WithCancel(t.Context())
		heard, ended := make(chan struct{}, 1000), make(chan error, 1)
		go func() { ended <- c.Events(ctx, func(uint64) error { heard <- struct{}{}; return nil }) }()
		select {
		case <-heard:
			return cancel, nil
		case err := <-ended:
			cancel()
			return nil, err
		}
	}
	var stops []func()
	for n := range server.StreamsPerPeer {
		stop, err := listen()
		if err != nil {
			t.Fatalf("stream %d: %v", n+1, err)
		}
		defer stop()
		stops = append(stops, stop)
		if n+1 != 60 {
			continue
		}
		for range server.PerPeer / 2 { // that stay open
			conn, err := net.Dial("unix", o.Socket) // does not block
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close() // a test's connection
		}
		if _, err := c.Status(t.Context()); err != nil {
			t.Errorf("with 60 streams: %v", err)
		}
	}
	if _, err := listen(); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a stream too many: %v", err)
	}
	stops[0]()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		stop, err := listen()
		if err == nil {
			stop()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the place of a stream that has ended does not come back: %v", err)
		}
	}
}

// However many streams others have, every user gets one: the user with the most loses the oldest.
func TestStreamsAreSharedAmongUsers(t *testing.T) {
	needRoot(t)
	o := options(edgetest.NewBackend(edgetest.View()))
	o.Socket, o.Group = filepath.Join(socketDir(t), "s.sock"), "games"
	serve(t, o)
	var hogs []net.Conn
	for uid := range server.StreamsPerAll / server.StreamsPerPeer { // they take all slots
		for range server.StreamsPerPeer {
			hogs = append(hogs, stream(t, o.Socket, 60000+uid))
		}
	}
	for range 8 {
		if c := stream(t, o.Socket, 65534); c == nil {
			t.Fatal("a user gets no stream while others have all")
		}
	}
	if c := stream(t, o.Socket, 60000); c != nil {
		t.Error("who has most gets one more")
	}
	var over atomic.Int64
	var wg sync.WaitGroup
	for _, c := range hogs {
		wg.Go(func() {
			if _, err := io.Copy(io.Discard, c); err == nil { // its end
				over.Add(1)
			}
		})
	}
	for end := time.Now().Add(time.Minute); over.Load() < 8 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // for one more than that, which is not to end
	if n := over.Load(); n != 8 {
		t.Errorf("%d streams of others ended, want 8", n)
	}
	for _, c := range hogs {
		_ = c.Close()
	}
	wg.Wait()
}

// stream opens an event stream as a user, nil if it is refused.
func stream(t *testing.T, socket string, uid int) net.Conn {
	t.Helper()
	var c net.Conn
	err := as(uid, 60, func() (err error) {
		c, err = net.Dial("unix", socket) // does not block for long: the backlog is served
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, "GET /v1/events HTTP/1.1\r\nHost: sluice\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(io.LimitReader(c, 1<<10)), nil) //nolint:bodyclose // with the connection
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil
	}
	return c
}

// Many addresses of one host have one share: 127.0.0.0/8 of this host, and a network of IPv6.
func TestManyAddressesOfOneHostAreOneShare(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"10.0.0.1:1", "10.0.0.1:2", true},
		{"10.0.0.1:1", "10.0.0.2:1", false},
		{"127.0.0.1:1", "127.9.9.9:2", true},
		{"127.0.0.1:1", "[::1]:2", true},
		{"[2001:db8::1]:1", "[2001:db8::ffff:1:2]:2", true},
		{"[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false},
		{"[::ffff:10.0.0.1]:1", "10.0.0.1:1", true},
		{"[fe80::1%eth0]:1", "[fe80::2%eth1]:1", true},
	} {
		if a, b := server.ShareOf(c.a), server.ShareOf(c.b); (a == b) != c.same {
			t.Errorf("%s is %q, %s is %q", c.a, a, c.b, b)
		}
	}
}

// A page from another site can make a browser address this host by a name of that site, and is refused.
func TestHostIsChecked(t *testing.T) {
	o := options(edgetest.NewBackend(edgetest.View()))
	o.Listen, o.Hosts = "hv1.example:9178", "metrics.example, Hv1"
	h := server.NewHandler(o)
	for host, want := range map[string]int{
		"127.0.0.1:9178": http.StatusOK, "[::1]:9178": http.StatusOK, "10.0.0.1": http.StatusOK, "localhost:9178": http.StatusOK,
		"LOCALHOST.":       http.StatusOK,
		"hv1.example:9178": http.StatusOK, "metrics.example": http.StatusOK, "hv1:9178": http.StatusOK,
		"evil.example": http.StatusMisdirectedRequest, "localhost.evil.example:9178": http.StatusMisdirectedRequest,
		"":                       http.StatusMisdirectedRequest,
		"127.0.0.1.evil.example": http.StatusMisdirectedRequest,
	} {
		for _, path := range []string{"/v1/vms", "/metrics", "/healthz"} {
			r := newRequest(path)
			r.Host = host
			if w := record(h, server.OverTCP(r)); w.Code != want {
				t.Errorf("%q %s: %d, want %d", host, path, w.Code, want)
			}
		}
	}
	r := newRequest("/v1/vms")
	r.Host = "evil.example" // no browser reaches the unix socket
	if w := record(h, server.AsUser(r, 0)); w.Code != http.StatusOK {
		t.Errorf("unix socket: %d", w.Code)
	}
}

// Copying the loop's memory takes the loop's time: it is not available over TCP, and is copied once per revision.
func TestMemoryIsForThisHost(t *testing.T) {
	b := edgetest.NewBackend(withRevision(7))
	h := server.NewHandler(options(b))
	if w := record(h, server.OverTCP(newRequestTo("127.0.0.1", "/v1/memory"))); w.Code != http.StatusForbidden {
		t.Errorf("over TCP: %d %s", w.Code, w.Body)
	}
	for range 10 {
		if w := record(h, server.AsUser(newRequest("/v1/memory"), 1000)); w.Code != http.StatusOK ||
			!strings.Contains(w.Body.String(), `"state":{}`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	if n := b.Memories(); n != 1 {
		t.Errorf("the loop was asked %d times in one revision", n)
	}
	b.Show(withRevision(8))
	record(h, server.AsUser(newRequest("/v1/memory"), 1000))
	if n := b.Memories(); n != 2 {
		t.Errorf("the loop was asked %d times in two revisions", n)
	}
}

// Many scrapers at one address with keep-alive connections leave room for one more.
func TestManyScrapersOverTCP(t *testing.T) {
	o := options(edgetest.NewBackend(edgetest.View()))
	o.Listen = "127.0.0.1:0"
	url := "http://" + serve(t, o).Addrs()[0].String() + "/metrics"
	var wg sync.WaitGroup
	for range 33 {
		wg.Go(func() {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
			for range 5 {
				resp, err := client.Get(url) // bounded by the client
				if err != nil {
					t.Error(err)
					return
				}
				_, err = io.Copy(io.Discard, resp.Body)
				if e := resp.Body.Close(); resp.StatusCode != http.StatusOK || err != nil || e != nil {
					t.Error(resp.StatusCode, err, e)
				}
			}
		})
	}
	wg.Wait()
}
