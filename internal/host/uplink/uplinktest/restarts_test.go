package uplinktest

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/uplink/ovstest"
	"sluice/internal/model"
)

var restarts = flag.Int("restarts", 0, "how often each daemon is ended and started in the measurement of what that loses; 0: none is made")

const plainTap = "tap2"

// plainGuest has a tap and nothing of Sluice's.
var plainGuest = kerneltest.MAC("52:54:00:00:00:77")

// TestWhatRestartsLose ends each daemon of Open vSwitch and OVN and starts it again while a guest is on its VF, and sends frames to it and
// to a guest that Sluice has nothing to do with. Sluice repairs what the uplink reports, as its daemon does. Both receive all frames again at
// the same time, to a second.
func TestWhatRestartsLose(t *testing.T) {
	if *restarts == 0 {
		t.Skip("without -restarts")
	}
	t.Run("open vswitch", func(t *testing.T) {
		o := ovstest.Start(t)
		w := worldOf(t)
		plain := kerneltest.NewPort(t, plainTap, "")
		ovstest.VSCtl(t, "add-port", "br0", plainTap)
		measureRestarts(t, w, plain, daemons(t, o))
	})
	t.Run("ovn", func(t *testing.T) {
		h := startOVN(t)
		w := ovnWorldOf(t, h)
		plain := kerneltest.NewPort(t, plainTap, "")
		h.NB(t, "lsp-add", "s", "P", "--", "lsp-set-addresses", "P", plainGuest.String())
		ovstest.VSCtl(t, "add-port", "br0", plainTap, "--", "set", "interface", plainTap, "external_ids:iface-id=P")
		kerneltest.WaitFor(t, "OVN to know the other guest", func() bool { return idOf(plainTap, "ovn-installed") == "true" })
		measureRestarts(t, w, plain, append(daemons(t, h), service{
			"ovn-controller", func() *exec.Cmd { return h.Controller }, func() { h.StartController(t) },
			func() bool { return controls("ovn-controller", "connection-status") == "connected\n" },
		}))
	})
}

// service is a daemon that can be ended and started.
type service struct {
	name  string
	is    func() *exec.Cmd
	start func()
	back  func() bool // it answers, with all that it needs
}

// controls returns what a daemon answers on its control socket.
func controls(name string, command ...string) string {
	dir := os.Getenv("OVS_RUNDIR")
	pid, err := os.ReadFile(filepath.Join(dir, name+".pid"))
	if err != nil {
		return ""
	}
	socket := filepath.Join(dir, fmt.Sprintf("%s.%d.ctl", name, atoi(pid)))
	out, _ := exec.Command("ovs-appctl", append([]string{"--timeout=5", "-t", socket}, command...)...).Output()
	return string(out)
}

func atoi(b []byte) (n int) {
	_, _ = fmt.Sscan(string(b), &n)
	return n
}

func daemons(t *testing.T, o *ovstest.Host) []service {
	return []service{
		{
			"ovs-vswitchd", func() *exec.Cmd { return o.Switch }, func() { o.StartSwitch(t) },
			func() bool { return controls("ovs-vswitchd", "version") != "" },
		},
		{
			"ovsdb-server", func() *exec.Cmd { return o.Database }, func() { o.StartDatabase(t) },
			func() bool {
				return exec.Command("ovs-vsctl", "--db="+o.Socket("db"), "--timeout=5", "show").Run() == nil
			},
		},
	}
}

// arrival counts what arrives of a guest's frames, by number.
func arrivals(t *testing.T, at *kerneltest.Port, mac model.MAC) (got func() map[uint32]int) {
	all := make(chan map[uint32]int, 1)
	go func() {
		m := map[uint32]int{}
		defer func() { all <- m }()
		for {
			frame := at.Next(t)
			switch {
			case string(frame[:6]) != string(mac[:]) || frame[14] != '#':
			case string(frame[15:19]) == "last":
				return
			default:
				m[binary.BigEndian.Uint32(frame[15:])]++
			}
		}
	}()
	return func() map[uint32]int { return <-all }
}

func measureRestarts(t *testing.T, w world, plain *kerneltest.Port, services []service) {
	p := w.step(t, guestTap, kerneltest.Guest)
	kerneltest.Must(t, w.toBoth(kerneltest.Soon(t), p))
	kerneltest.Must(t, w.ToVF(kerneltest.Soon(t), p))
	kerneltest.Must(t, w.ToOne(kerneltest.Soon(t), p))
	plain.Send(t, kerneltest.Frame(kerneltest.Other, plainGuest, "here I am"))
	for _, port := range []*kerneltest.Port{w.vf, plain} {
		kerneltest.IP(t, "link set "+port.Name+" txqueuelen 10000")
	}
	for _, s := range services {
		for _, way := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
			for range *restarts {
				measureRestart(t, w, p, plain, s, way)
			}
		}
	}
}

func measureRestart(t *testing.T, w world, p *model.PathStep, plain *kerneltest.Port, s service, way syscall.Signal) {
	atVF, atPlain := arrivals(t, w.vf, p.MAC), arrivals(t, plain, plainGuest)
	peer := w.from[0]
	numbered := func(to model.MAC, n uint32) []byte {
		return kerneltest.Frame(to, kerneltest.Other, string(binary.BigEndian.AppendUint32([]byte{'#'}, n)))
	}
	var at []time.Time // when each frame was sent
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			peer.Send(t, numbered(p.MAC, uint32(len(at))))
			peer.Send(t, numbered(plainGuest, uint32(len(at))))
			at = append(at, time.Now())
		}
	}()
	ctx := t.Context()
	changed, err := w.Watch(ctx)
	kerneltest.Must(t, err)
	repaired := make(chan struct{})
	go func() { // as the daemon does with what is reported
		defer close(repaired)
		for {
			select {
			case <-stop:
				return
			case <-changed:
			case <-time.After(time.Second): // its sample
			}
			if len(w.routes(t, p.MAC)) == 0 {
				_ = w.ToVF(kerneltest.Soon(t), p)
			}
		}
	}()
	time.Sleep(300 * time.Millisecond) // frames before
	_ = s.is().Process.Signal(way)
	_ = s.is().Wait()
	gone := time.Now()
	s.start()
	kerneltest.WaitFor(t, s.name+" to answer", s.back)
	back := time.Now()
	time.Sleep(4 * time.Second) // in which what is lost is counted
	close(stop)
	<-ended
	<-repaired
	for _, to := range []model.MAC{p.MAC, plainGuest} {
		last := kerneltest.Frame(to, kerneltest.Other, "#last")
		peer.Send(t, last)
	}
	text := fmt.Sprintf("%s, signal %d, back after %s, %d frames to each:", s.name, way, back.Sub(gone).Round(time.Millisecond), len(at))
	var rights [2]time.Duration
	for i, g := range []struct {
		who string
		got map[uint32]int
	}{{"on a VF", atVF()}, {"without Sluice", atPlain()}} {
		lost, twice := 0, 0
		var wrong time.Time
		for n, sent := range at {
			switch g.got[uint32(n)] {
			case 0:
				lost++
				wrong = sent
			case 1:
			default:
				twice++
				wrong = sent
			}
		}
		rights[i] = max(0, wrong.Sub(back)).Round(time.Millisecond)
		text += fmt.Sprintf(" %s %d lost, %d twice, right %s after;", g.who, lost, twice, rights[i])
	}
	if rights[0] > rights[1]+time.Second {
		t.Errorf("%s: right %s after it answers, without Sluice %s", s.name, rights[0], rights[1])
	}
	t.Log(text)
}
