package uplinktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/uplink/ovstest"
	"sluice/internal/model"
)

// sends sends frames from one port, and returns how many another receives.
func sends(t *testing.T, from, to *kerneltest.Port, frames ...[]byte) (n int) {
	t.Helper()
	for _, f := range frames {
		from.Send(t, f)
	}
	last := frames[len(frames)-1]
	for {
		got := to.Next(t)
		for _, f := range frames {
			if string(got) == string(f) {
				n++
			}
		}
		if string(got) == string(last) {
			return n
		}
	}
}

// TestOVNRules: an access list and port security hold on the tap, on the representor and while both are open, for what the guest receives
// and for what it sends by its VF.
func TestOVNRules(t *testing.T) {
	h := startOVN(t)
	w := ovnWorldOf(t, h)
	p := w.step(t, guestTap, kerneltest.Guest)
	peer := w.from[0]
	forbidden := forbid(kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "forbidden"))
	rules := func(when string, at, from *kerneltest.Port) {
		t.Helper()
		marker := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "allowed "+when)
		if n := sends(t, peer, at, forbidden, forbidden, marker); n != 1 {
			t.Errorf("%s: %d of 3 frames reach %s, want the allowed one", when, n, at.Name)
		}
		spoofed := kerneltest.Frame(kerneltest.Other, kerneltest.Stray, "spoofed "+when)
		marker = kerneltest.Frame(kerneltest.Other, kerneltest.Guest, "sent "+when)
		if n := sends(t, from, peer, spoofed, marker); n != 1 {
			t.Errorf("%s: %d of 2 frames from %s leave, want the one with the guest's MAC", when, n, from.Name)
		}
	}
	rules("before", w.tap, w.tap)
	kerneltest.Must(t, w.toBoth(kerneltest.Soon(t), p))
	for _, at := range []*kerneltest.Port{w.tap, w.vf} {
		for _, from := range []*kerneltest.Port{w.tap, w.vf} {
			rules("on both", at, from)
		}
	}
	kerneltest.Must(t, w.ToVF(kerneltest.Soon(t), p))
	rules("on the VF", w.vf, w.vf)
	kerneltest.Must(t, w.ToOne(kerneltest.Soon(t), p))
	rules("on the VF alone", w.vf, w.vf)
	kerneltest.Must(t, w.toBoth(kerneltest.Soon(t), p))
	rules("on both again", w.tap, w.vf)
	kerneltest.Must(t, w.ToOne(kerneltest.Soon(t), p))
	rules("after", w.tap, w.tap)
}

// TestOVNRestarts: a guest on its VF is reached there again after each daemon was killed and started, without anything that Sluice does.
func TestOVNRestarts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts each daemon of OVN twice")
	}
	h := startOVN(t)
	w := ovnWorldOf(t, h)
	p := w.step(t, guestTap, kerneltest.Guest)
	kerneltest.Must(t, w.ToVF(kerneltest.Soon(t), p))
	for name, restart := range map[string]func(){
		"ovn-controller": func() {
			ovstest.Kill(h.Controller)
			h.StartController(t)
		},
		"ovs-vswitchd": func() {
			ovstest.Kill(h.Switch)
			h.StartSwitch(t)
		},
		"ovsdb-server": func() {
			ovstest.Kill(h.Database)
			h.StartDatabase(t)
		},
	} {
		restart()
		start := time.Now()
		kerneltest.WaitFor(t, name+" to work again", func() bool {
			w.from[0].Send(t, kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "after "+name))
			return w.vf.Waiting(t) != nil
		})
		t.Logf("%s: the VF receives %s after its start", name, time.Since(start).Round(time.Millisecond))
		kerneltest.WaitFor(t, "OVN to have its ports", func() bool {
			return exec.Command("ovn-nbctl", "--db="+h.Socket("nb"), "--timeout=5", "--wait=hv", "sync").Run() == nil
		})
		for w.vf.Waiting(t) != nil { // frames that waited
		}
		if got := w.routes(t, p.MAC); len(got) != 1 || got[0] != p.Port() {
			t.Errorf("%s: the route is %v", name, got)
		}
		kerneltest.WaitFor(t, "a move after "+name, func() bool { return w.ToTap(kerneltest.Soon(t), p) == nil })
		if tap, vf := w.reach(t); !tap || vf {
			t.Errorf("after %s and ToTap: at the tap %v, at the VF %v", name, tap, vf)
		}
		kerneltest.Must(t, w.ToVF(kerneltest.Soon(t), p))
		if tap, vf := w.reach(t); tap || !vf {
			t.Errorf("after %s and ToVF: at the tap %v, at the VF %v", name, tap, vf)
		}
	}
}

// TestOVNWithoutController: a move that ovn-controller does not take over fails with the reason, nobody is cut off by it, and it is undone.
func TestOVNWithoutController(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a deadline")
	}
	h := startOVN(t)
	w := ovnWorldOf(t, h)
	p := w.step(t, guestTap, kerneltest.Guest)
	kerneltest.Must(t, w.toBoth(kerneltest.Soon(t), p))
	ovstest.Kill(h.Controller)
	if err := w.ToVF(kerneltest.Soon(t), p); err == nil || !strings.Contains(err.Error(), "ovn-controller") {
		t.Errorf("without ovn-controller: %v", err)
	}
	if tap, vf := w.reach(t); !tap || !vf {
		t.Errorf("without ovn-controller: at the tap %v, at the VF %v", tap, vf)
	}
	h.StartController(t)
	kerneltest.Must(t, w.ToTap(kerneltest.Soon(t), p))
	kerneltest.Must(t, w.ToOne(kerneltest.Soon(t), p))
	if tap, vf := w.reach(t); !tap || vf {
		t.Errorf("undone: at the tap %v, at the VF %v", tap, vf)
	}
}

// TestLostAnswerIsNoAnswer: after a transaction whose answer is lost with the connection, nothing is decided on what was known before it,
// however busy the connection was with what others change: the logical port is where a move says that it is, or the move fails.
func TestLostAnswerIsNoAnswer(t *testing.T) {
	w := ovnWorldOf(t, startOVN(t))
	p := w.step(t, guestTap, kerneltest.Guest)
	lossy := &process{}
	s := through(t, lossy, newKernel(t))
	t.Cleanup(s.Close)
	o := s.OVN()
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	changes := 0
	others.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			err := exec.CommandContext(ctx, "ovs-vsctl", "--db=unix:"+filepath.Join(os.Getenv("OVS_RUNDIR"), "db.sock"), "--timeout=60", "--no-wait",
				"set", "open", ".", fmt.Sprint("external_ids:others=", n)).Run()
			if err == nil {
				changes++
			}
		}
	})
	defer func() {
		stop()
		if others.Wait(); changes == 0 {
			t.Error("nobody else changed anything")
		}
	}()
	for _, lost := range []bool{false, true, true, true, true, true} {
		lossy.lose(lost)
		if err := o.ToVF(kerneltest.Soon(t), p); (err != nil) != lost {
			t.Fatalf("a move whose answer is lost (%v): %v", lost, err)
		}
		kerneltest.WaitFor(t, "a move back to the tap", func() bool { return o.ToTap(kerneltest.Soon(t), p) == nil })
		if at := idOf(guestTap, "iface-id"); at != "A" {
			t.Fatalf("the logical port is said to be at the tap, where %q is", at)
		}
	}
}

// TestOVNChangedByOthers: what somebody changes while a guest is on its VF is seen, respected, and mended where the guest would be cut off.
func TestOVNChangedByOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("TestBinding has the rules")
	}
	h := startOVN(t)
	w := ovnWorldOf(t, h)
	p := w.step(t, guestTap, kerneltest.Guest)
	told := func(what string, want int) {
		t.Helper()
		kerneltest.WaitFor(t, what+" to be seen", func() bool { return len(w.routes(t, p.MAC)) == want })
	}
	kerneltest.Must(t, w.ToVF(kerneltest.Soon(t), p))

	ovstest.VSCtl(t, "del-port", "rep0")
	told("the representor's end", 0)
	kerneltest.Must(t, w.ToVF(kerneltest.Soon(t), p))
	if tap, vf := w.reach(t); tap || !vf {
		t.Errorf("the representor's port was deleted, and mended: at the tap %v, at the VF %v", tap, vf)
	}

	ovstest.VSCtl(t, "del-port", "rep0", "--", "add-br", "br1", "--", "set", "bridge", "br1", "datapath_type="+ovstest.Datapath(t), "--", "add-port", "br1", "rep0")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", "br1").Run() })
	told("the representor in another bridge", 0)
	if err := w.ToVF(kerneltest.Soon(t), p); !errors.Is(err, model.ErrPermanent) {
		t.Errorf("a representor that somebody put elsewhere: %v", err)
	}
	kerneltest.Must(t, w.ToTap(kerneltest.Soon(t), p))
	if id := idOf(guestTap, "iface-id"); id != "A" {
		t.Errorf("back at the tap: iface-id %q", id)
	}
	ovstest.VSCtl(t, "del-br", "br1")
	kerneltest.Must(t, w.ToVF(kerneltest.Soon(t), p))

	h.NB(t, "lsp-add", "s", "C", "--", "lsp-set-addresses", "C", kerneltest.Guest.String(), "--", "lsp-del", "A")
	ovstest.VSCtl(t, "set", "interface", guestTap, "external_ids:iface-id=C")
	told("the new logical port at the tap", 0)
	kerneltest.Must(t, w.ToVF(kerneltest.Soon(t), p))
	if id, at := idOf("rep0", "iface-id"), idOf(guestTap, "iface-id"); id != "C" || at != "" {
		t.Errorf("the tap got another logical port: at the representor %q, at the tap %q", id, at)
	}
	if tap, vf := w.reach(t); tap || !vf {
		t.Errorf("with the other logical port: at the tap %v, at the VF %v", tap, vf)
	}

	ovstest.VSCtl(t, "remove", "interface", "rep0", "external_ids", "iface-id")
	told("the end of the logical port", 0)
	if err := w.ToVF(kerneltest.Soon(t), p); !errors.Is(err, model.ErrPermanent) {
		t.Errorf("somebody took the logical port away: %v", err)
	}

	ovstest.VSCtl(t, "set", "interface", guestTap, "external_ids:iface-id=C")
	// Check is content with what the tap had before, too: that it has got a logical port again is seen by the step alone.
	kerneltest.WaitFor(t, "the logical port at the tap to be seen", func() bool { return w.ToVF(kerneltest.Soon(t), p) == nil })
	w.unplug(t)
	stray := *p // as for a VM that is gone
	stray.Tap = ""
	kerneltest.Must(t, w.ToOne(kerneltest.Soon(t), &stray))
	if id := idOf("rep0", "iface-id"); id != "" {
		t.Errorf("the VM is gone, and its representor still has the logical port %q", id)
	}
}
