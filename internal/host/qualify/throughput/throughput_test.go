package throughput

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/qualify"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

// wired counts nothing.
type wired struct{}

func (wired) Link(context.Context, string) (netdev.Link, error) { return netdev.Link{}, nil }

func (wired) VFCounters(context.Context, string) (map[int]netdev.Counters, error) { return nil, nil }

// far makes a peer at the other end of pf0, in a namespace of its own, with the given commands of ip(8) in both, and returns a function that
// listens there.
func far(t *testing.T, here, there []string) (listen func(address string) net.Listener) {
	t.Helper()
	work, ready, end := make(chan func()), make(chan int), make(chan struct{})
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends, and the namespace with it
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
		}
		ready <- unix.Gettid()
		for f := range work {
			f()
		}
		close(end)
	}()
	in := func(f func()) {
		done := make(chan struct{})
		work <- func() { defer close(done); f() }
		<-done
	}
	tid := <-ready
	t.Cleanup(func() { close(work); <-end })
	kerneltest.IP(t, fmt.Sprintf("link add pf0 type veth peer name wire netns %d", tid))
	t.Cleanup(func() { kerneltest.IP(t, "link del pf0") })
	for _, line := range append([]string{"link set pf0 up"}, here...) {
		kerneltest.IP(t, line)
	}
	in(func() {
		for _, line := range append([]string{"link set wire up", "link set lo up"}, there...) {
			if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
				t.Errorf("ip %s: %v\n%s", line, err, out)
			}
		}
	})
	return func(address string) (l net.Listener) {
		in(func() {
			var err error
			if l, err = net.Listen("tcp", address); err != nil {
				t.Error(err)
			}
		})
		if l == nil {
			t.FailNow()
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
}

// discard reads all that comes.
func discard(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}()
	}
}

func options(t *testing.T) *Options {
	return &Options{PF: "pf0", Kernel: wired{}, Say: func(s string) { t.Log(s) }, Warm: 500 * time.Millisecond, During: 2 * time.Second}
}

// shaped is the rate of the link in tests, bits/s of frames.
const shaped = 200e6

func shape(t *testing.T, dev string) {
	t.Helper()
	kerneltest.TC(t, fmt.Sprintf("qdisc add dev %s root tbf rate %dbit burst 64kb latency 30ms", dev, int(shaped)))
}

// What arrives over a link of known rate is measured, with the tag that the frames have.
func TestTo(t *testing.T) {
	for _, c := range []struct {
		name        string
		here, there []string
		peer        string
		vlan        int
	}{
		{"untagged", []string{"addr add 192.0.2.1/24 dev pf0"}, []string{"addr add 192.0.2.7/24 dev wire"}, "192.0.2.7:9179", 0},
		{
			"VLAN",
			[]string{"link add link pf0 name pf0.20 type vlan id 20", "link set pf0.20 up", "addr add 192.0.2.1/24 dev pf0.20"},
			[]string{"link add link wire name wire.20 type vlan id 20", "link set wire.20 up", "addr add 192.0.2.7/24 dev wire.20"},
			"192.0.2.7:9179", 20,
		},
		{
			"bridge", []string{
				"link add br0 type bridge", "link set pf0 master br0", "link set br0 up", "addr add 2001:db8::1/64 dev br0 nodad",
			}, []string{"addr add 2001:db8::7/64 dev wire nodad"}, "[2001:db8::7]:9179", 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.vlan > 0 && exec.Command("ip", "link", "add", "link", "lo", "name", "try", "type", "vlan", "id", "1").Run() != nil {
				kerneltest.Lacks(t, "VLAN devices (CONFIG_VLAN_8021Q)")
				return
			}
			_ = exec.Command("ip", "link", "del", "try").Run()
			listen := far(t, c.here, c.there)
			if c.name == "bridge" {
				t.Cleanup(func() { kerneltest.IP(t, "link del br0") })
			}
			shape(t, "pf0")
			l := listen(c.peer)
			go discard(l)
			p := To(kerneltest.Soon(t), options(t), netip.MustParseAddrPort(c.peer))
			t.Logf("%+v", p)
			if p.Error != "" || p.VLAN != c.vlan || p.Address != c.peer || len(p.Rounds) < 2 || p.Rounds[0].Flows != 2 {
				t.Fatalf("%+v", p)
			}
			for i := range p.Rounds {
				if r := &p.Rounds[i]; r.Segment+r.Headers != 1514 {
					t.Errorf("%d bytes in a frame with headers of %d", r.Segment, r.Headers)
				}
			}
			q := qualify.Judge(&qualify.Measured{Peers: []qualify.Peer{p}})
			// The shaper counts a frame's 14 bytes of Ethernet, and 4 of a tag, but not the 24 around it.
			got, want := q.Capacity[0].Bits, shaped*1538/1514
			if got < 0.93*want || got > 1.04*want {
				t.Errorf("%.4g bits/s, want %.4g; %s", got, want, q.Capacity[0].Evidence)
			}
		})
	}
}

// A peer elsewhere, one that nobody answers at and one that does not read are refused, with the reason.
func TestToFails(t *testing.T) {
	listen := far(t, []string{"addr add 192.0.2.1/24 dev pf0", "link set lo up"}, []string{"addr add 192.0.2.7/24 dev wire"})
	elsewhere, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	go discard(elsewhere)
	rude := listen("192.0.2.7:9180")
	go func() {
		for {
			c, err := rude.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	for peer, want := range map[string]string{
		elsewhere.Addr().String(): "does not leave through pf0",
		"192.0.2.7:9181":          "`sluice qualify --receive 192.0.2.7:9181` must be running",
		"192.0.2.7:9180":          "the peer ended a connection",
	} {
		if p := To(kerneltest.Soon(t), options(t), netip.MustParseAddrPort(peer)); !strings.Contains(p.Error, want) || len(p.Rounds) > 0 {
			t.Errorf("%s: %+v, want %q", peer, p, want)
		}
	}
}

// An interrupt ends it at once.
func TestToEnds(t *testing.T) {
	listen := far(t, []string{"addr add 192.0.2.1/24 dev pf0"}, []string{"addr add 192.0.2.7/24 dev wire"})
	l := listen("192.0.2.7:9179")
	ctx, cancel := context.WithCancel(kerneltest.Soon(t))
	o := options(t)
	o.Warm = time.Hour
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		for range 1 + flows[0] { // one to find the way, and the first round's
			if c, err := l.Accept(); err == nil {
				defer c.Close()
			}
		}
		cancel()
	}()
	if p := To(ctx, o, netip.MustParseAddrPort("192.0.2.7:9179")); !strings.Contains(p.Error, "cancel") || len(p.Rounds) > 0 {
		t.Errorf("%+v", p)
	}
	<-accepted
}

// The kernel's counters of PF and VFs make up what left.
func TestLookCountsAllSenders(t *testing.T) {
	o := options(t)
	o.Kernel = counting{}
	if f, err := o.look(t.Context(), nil); err != nil || f.sent != 111 {
		t.Errorf("%d, %v", f.sent, err)
	}
	o.Kernel = counting{errors.New("gone")}
	if _, err := o.look(t.Context(), nil); err == nil {
		t.Error("an error is lost")
	}
}

type counting struct{ err error }

func (counting) Link(context.Context, string) (netdev.Link, error) {
	return netdev.Link{Counters: netdev.Counters{TxBytes: 1, RxBytes: 5}}, nil
}

func (c counting) VFCounters(context.Context, string) (map[int]netdev.Counters, error) {
	return map[int]netdev.Counters{0: {TxBytes: 10}, 3: {TxBytes: 100, RxBytes: 7}}, c.err
}

func TestBusiest(t *testing.T) {
	parse := func(text string) []cpu {
		list, err := parseStat([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	before := parse("cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 10 0 10 100 10 0 0 0 5 0\ncpu1 0 0 0 100 0 0 0 0 0 0\nintr 5 6 7 8 9 1 2 3 4 5\n")
	after := parse("cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 20 0 10 110 20 10 10 40 9 0\ncpu1 0 0 0 200 0 0 0 0 0 0\n")
	if got := busiest(before, after); got < 0.77 || got > 0.79 { // 70 of 90 ticks
		t.Errorf("%v", got)
	}
	if got := busiest(before, after[:1]); got != 0 {
		t.Errorf("%v of different CPUs", got)
	}
	if _, err := parseStat([]byte("cpu0 x 0 0 0 0 0 0 0 0 0\n")); err == nil {
		t.Error("a word counts as a number")
	}
}
