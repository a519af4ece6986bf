package libvirt

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/host/libvirt/libvirttest"
	"sluice/internal/model"
	"sluice/internal/tests/testkit"
)

func TestDetachAndWaitGone(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	v := libvirttest.VM{Name: "usb", USB: true, Ports: 1, Extra: libvirttest.Tablet("ua-dev")}
	d.Create(t, v)
	hasState(t, c, v, model.VMPaused)
	for range 2 { // the second time there is nothing to do
		if err := c.Detach(within(t, patience), id(v), "ua-dev"); err != nil {
			t.Fatalf("Detach: %v", err)
		}
		if err := c.WaitGone(within(t, patience), id(v), "ua-dev"); err != nil {
			t.Fatalf("WaitGone: %v", err)
		}
	}
	if live(t, c, v, "ua-dev") {
		t.Error("the device is still there")
	}
}

// A refusal that arrives before anybody waits is reported, and a new request discards it.
func TestRefusedUnplug(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	v := libvirttest.VM{Name: "v", Ports: 1, Extra: libvirttest.RNG("ua-dev")}
	d.Create(t, v)
	dev := device{id(v), "ua-dev"}
	if err := c.Detach(within(t, patience), dev.vm, dev.alias); err != nil {
		t.Fatal(err)
	}
	c.unplugs.tell(dev, refused)
	err := c.WaitGone(within(t, patience), dev.vm, dev.alias)
	if !errors.Is(err, model.ErrGuest) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("WaitGone: %v", err)
	}
	if err := c.Detach(within(t, patience), dev.vm, dev.alias); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitGone(within(t, 100*time.Millisecond), dev.vm, dev.alias); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("WaitGone after a new request: %v", err)
	}
}

// lines collects a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// The loss of libvirtd is logged once, however long it lasts, and not at all if Close caused it.
func TestLossIsLoggedOnce(t *testing.T) {
	d := libvirttest.Start(t)
	var log lines
	looks := 0
	c := open(t, d.URI(), func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		o.MaxBackoff = o.MinBackoff
	})
	lost := func() bool { _, err := c.Domains(context.Background()); return errors.Is(err, ErrDisconnected) }
	d.Kill(t)
	libvirttest.Eventually(t, patience, "the loss is noticed", lost)
	libvirttest.Eventually(t, patience, "it was tried again", func() bool { looks++; return lost() && looks > 50 })
	d.Start(t)
	libvirttest.Eventually(t, patience, "it is back", func() bool { return !lost() })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if n := log.count("lost libvirt"); n != 1 {
		t.Errorf("the loss was logged %d times:\n%s", n, log.text.String())
	}
	if n := log.count("connected to libvirt"); n != 2 {
		t.Errorf("%d times connected:\n%s", n, log.text.String())
	}
}

func TestRestartedDaemon(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	a, b := libvirttest.VM{Name: "a"}, libvirttest.VM{Name: "b"}
	d.Create(t, a)
	hasState(t, c, a, model.VMPaused)
	d.Virsh(t, "resume", a.Name)
	hasState(t, c, a, model.VMRunning)
	started := find(t, c, a.UUID()).Started

	d.Kill(t)
	libvirttest.Eventually(t, patience, "the loss is noticed", func() bool {
		_, err := c.Domains(context.Background())
		return errors.Is(err, ErrDisconnected)
	})
	if err := c.Attach(within(t, patience), id(a), HostdevSpec{Alias: "ua-x", Address: "0000:01:00.0"}); !errors.Is(err, ErrDisconnected) {
		t.Errorf("Attach meanwhile: %v", err)
	}
	if p := c.Problems(); len(p) != 1 || !strings.Contains(p[0].Text, "not connected") {
		t.Errorf("Problems meanwhile: %v", p)
	}

	d.Start(t)
	hasState(t, c, a, model.VMRunning)
	if now := find(t, c, a.UUID()).Started; !now.Equal(started) {
		t.Errorf("Started changed from %s to %s", started, now)
	}
	d.Create(t, b) // events flow again
	hasState(t, c, b, model.VMPaused)
}

// A frozen libvirtd neither answers nor closes the connection: only the keepalive detects it.
func TestFrozenDaemon(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI(), func(o *Options) { o.Keepalive = time.Second })
	v := libvirttest.VM{Name: "v"}
	d.Create(t, v)
	hasState(t, c, v, model.VMPaused)
	d.Freeze(t)
	meanwhile(t, "statistics", func() {
		if _, err := c.Stats(within(t, 200*time.Millisecond)); err == nil {
			t.Error("Stats succeeded")
		}
	})
	libvirttest.Eventually(t, patience, "the loss is noticed", func() bool {
		_, err := c.Domains(context.Background())
		return errors.Is(err, ErrDisconnected)
	})
	d.Thaw(t)
	hasState(t, c, v, model.VMPaused)
}

// held reports whether err means that a QEMU does not answer. On a machine under load, a plain query of libvirt may be abandoned too, and
// its domain then counts as stuck until the query returns.
func held(err error) bool {
	return errors.Is(err, ErrStuck) && (strings.Contains(err.Error(), `"detach device"`) ||
		strings.Contains(err.Error(), "has not answered libvirt"))
}

func TestStuckDomainDelaysNoOther(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	bad := libvirttest.VM{Name: "bad", Ports: 1, Extra: libvirttest.RNG("ua-dev")}
	good := libvirttest.VM{Name: "good", Ports: 1, USB: true, Extra: libvirttest.Tablet("ua-dev")}
	d.Create(t, bad)
	d.Create(t, good)
	hasState(t, c, bad, model.VMPaused)
	hasState(t, c, good, model.VMPaused)
	d.FreezeVM(t, bad.Name)
	defer d.ThawVM(t, bad.Name)

	libvirttest.Eventually(t, patience, "a call on it is abandoned", func() bool {
		err := c.Detach(within(t, testkit.Time(250*time.Millisecond)), id(bad), "ua-dev")
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrStuck) {
			t.Fatalf("Detach from the stuck one: %v", err)
		}
		return held(err)
	})
	meanwhile(t, "the next call on it", func() {
		if err := c.Detach(within(t, patience), id(bad), "ua-dev"); !errors.Is(err, ErrStuck) {
			t.Errorf("Detach again: %v", err)
		}
	})
	meanwhile(t, "statistics", func() { allStats(t, c, bad, good) })
	meanwhile(t, "detach from the other", func() {
		if err := c.Detach(within(t, patience), id(good), "ua-dev"); err != nil {
			t.Error(err)
		}
		if err := c.WaitGone(within(t, patience), id(good), "ua-dev"); err != nil {
			t.Error(err)
		}
	})
	libvirttest.Eventually(t, patience, "a problem names it", func() bool {
		for _, p := range c.Problems() {
			if p.Subject == bad.Name && p.Remedy != "" {
				return true
			}
		}
		return false
	})

	d.ThawVM(t, bad.Name)
	libvirttest.Eventually(t, patience, "it is usable again", func() bool {
		return c.Detach(within(t, patience), id(bad), "ua-dev") == nil
	})
	libvirttest.Eventually(t, patience, "the problem is gone", func() bool { return len(c.Problems()) == 0 })
}

// e1000 is a NIC that cannot be paired with a VF.
const e1000 = "<interface type='bridge'><mac address='52:54:00:00:00:07'/><source bridge='" + libvirttest.Bridge +
	"'/><model type='e1000'/></interface>"

// xmlWaits makes every libvirt count as one that waits for a stuck QEMU before it returns the XML.
func xmlWaits(t *testing.T) {
	was := xmlWaitsFrom
	t.Cleanup(func() { xmlWaitsFrom = was })
	xmlWaitsFrom = 0
}

// stuckByOthers creates a domain on which a call of another program is stuck, and waits until a Conn has noticed.
func stuckByOthers(t *testing.T, d *libvirttest.Daemon, c *Conn) libvirttest.VM {
	v := libvirttest.VM{Name: "v", Ports: 1, Extra: libvirttest.RNG("ua-dev"), NICs: []string{e1000}}
	d.Create(t, v)
	hasState(t, c, v, model.VMPaused)
	d.FreezeVM(t, v.Name)
	t.Cleanup(func() { d.ThawVM(t, v.Name) })
	d.Run(t, "bash", "-c", "virsh detach-device-alias "+v.Name+" ua-dev >/dev/null 2>&1 &")
	libvirttest.Eventually(t, patience, "the silence is noticed", func() bool {
		p := c.Problems()
		return len(p) == 1 && p[0].Subject == v.Name && strings.Contains(p[0].Text, "has not answered libvirt")
	})
	return v
}

// A domain on which another program's call is stuck is left alone: no call of Conn is queued behind it, and its MACs are the last known.
func TestDomainStuckByOthers(t *testing.T) {
	xmlWaits(t)
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	v := stuckByOthers(t, d, c)
	if err := c.Detach(within(t, patience), id(v), "ua-dev"); !errors.Is(err, ErrStuck) {
		t.Errorf("Detach: %v", err)
	}
	macs, err := c.MACs(within(t, patience))
	if who := macs[model.MAC{0x52, 0x54, 0, 0, 0, 7}]; err != nil || !strings.HasSuffix(who, " of "+v.Name) {
		t.Errorf("MACs: %v, %v", macs, err)
	}
	s, err := c.session()
	if err != nil {
		t.Fatal(err)
	}
	if left := append(s.hotplug.calls.stuck(), s.queries.calls.stuck()...); len(left) != 0 {
		t.Errorf("calls left behind: %v", left)
	}

	late := open(t, d.URI()) // it has never seen the domain
	if got := late.Unread(); len(got) != 1 || got[0] != id(v) || find(t, late, v.UUID()) != nil {
		t.Errorf("unread: %v", got)
	}
	if macs, err := late.MACs(within(t, patience)); !errors.Is(err, ErrStuck) {
		t.Errorf("MACs of a domain that was never read: %v, %v", macs, err)
	}
	d.ThawVM(t, v.Name)
	hasState(t, late, v, model.VMPaused)
	if got := late.Unread(); len(got) != 0 {
		t.Errorf("unread at last: %v", got)
	}
}

// A libvirt that returns the XML of a stuck domain at once is asked for it.
func TestStuckDomainIsReadWhereThatDoesNotWait(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	s, err := c.session()
	if err != nil {
		t.Fatal(err)
	}
	if now, err := onConn(within(t, patience), s.queries, "", "read version",
		func(c *client) (uint64, error) { return c.ConnectGetLibVersion() }); err != nil || now >= xmlWaitsFrom {
		t.Skipf("libvirt %d: %v", now, err)
	}
	v := stuckByOthers(t, d, c)
	late := open(t, d.URI())
	if got := late.Unread(); len(got) != 0 || find(t, late, v.UUID()) == nil {
		t.Errorf("unread: %v", got)
	}
}

// A QEMU that is always executing another command delays no caller for longer than busyLimit, or than its context.
func TestNeverAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := func() (time.Duration, error) { return time.Millisecond, nil }
		begin := time.Now()
		err := untilAtRest(t.Context(), work)
		if took := time.Since(begin); !errors.Is(err, ErrStuck) || took != busyLimit {
			t.Errorf("after %s: %v", took, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := untilAtRest(ctx, work); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrStuck) {
			t.Errorf("a caller in a hurry: %v", err)
		}
	})
}

// meanwhile fails if fn does not return while something is stuck. The test itself must release it later; libvirt's own timeouts are longer.
func meanwhile(t *testing.T, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	select {
	case <-done:
	case <-time.After(testkit.Time(patience)):
		t.Fatalf("%s: takes too long", what)
	}
}

func allStats(t *testing.T, c *Conn, vms ...libvirttest.VM) {
	t.Helper()
	got, err := c.Stats(within(t, patience))
	if err != nil || len(got) != len(vms) {
		t.Errorf("Stats: %v, %v", got, err)
		return
	}
	for _, v := range vms {
		if st := got[id(v)]; !st.CPUKnown || st.CPUTime <= 0 || st.State != model.VMPaused {
			t.Errorf("%s: %+v", v.Name, st)
		}
	}
}

// A dump into a pipe that nobody reads holds the domain in a job, as a migration does.
func TestJobHoldsDomain(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	v := libvirttest.VM{Name: "v", Ports: 1, Extra: libvirttest.RNG("ua-dev")}
	d.Create(t, v)
	d.Virsh(t, "resume", v.Name)
	hasState(t, c, v, model.VMRunning)
	pipe := filepath.Join(t.TempDir(), "pipe")
	d.Run(t, "bash", "-c", "mkfifo "+pipe+"; (exec 3<>"+pipe+"; sleep infinity) >/dev/null 2>&1 & virsh dump --live "+v.Name+" "+pipe+
		" >/dev/null 2>&1 &")
	hasState(t, c, v, model.VMMigrating)
	err := c.Detach(within(t, patience), id(v), "ua-dev")
	if err == nil || !strings.Contains(err.Error(), "migrated or saved") {
		t.Errorf("Detach: %v", err)
	}
	d.Run(t, "bash", "-c", "cat "+pipe+" >/dev/null 2>&1 &") // lets the dump finish
	hasState(t, c, v, model.VMRunning)
}

func TestReboot(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	v := libvirttest.VM{Name: "v"}
	d.Create(t, v)
	d.Virsh(t, "resume", v.Name)
	hasState(t, c, v, model.VMRunning)
	was := find(t, c, v.UUID()).Started
	d.Virsh(t, "reset", v.Name)
	libvirttest.Eventually(t, patience, "the reboot shows", func() bool { return find(t, c, v.UUID()).Started.After(was) })
}

func TestAgentErrors(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	without := libvirttest.VM{Name: "wo"}
	silent := libvirttest.VM{Name: "silent", Extra: "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>"}
	for _, tc := range []struct {
		vm   libvirttest.VM
		want error
	}{{without, model.ErrPermanent}, {silent, model.ErrGuest}} {
		d.Create(t, tc.vm)
		d.Virsh(t, "resume", tc.vm.Name)
		hasState(t, c, tc.vm, model.VMRunning)
		_, err := c.Agent(within(t, patience), id(tc.vm), []byte(`{"execute":"guest-ping"}`))
		if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.vm.Name) {
			t.Errorf("%s: %v", tc.vm.Name, err)
		}
	}
	stopped := libvirttest.VM{Name: "off"}
	d.Virsh(t, "define", d.File(t, stopped.XML()))
	for _, vm := range []model.VMID{id(stopped), "00000000-0000-4000-8000-00000000dead"} {
		if _, err := c.Agent(within(t, patience), vm, []byte("{}")); !errors.Is(err, model.ErrGone) {
			t.Errorf("%s: %v", vm, err)
		}
	}
}

func TestAttachErrors(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	v := libvirttest.VM{
		Name: "v", Ports: 1, USB: true, Extra: libvirttest.Tablet("ua-dev"),
		NICs: []string{libvirttest.NIC("52:54:00:00:00:01", "ua-net0", true)},
	}
	d.Create(t, v)
	hasState(t, c, v, model.VMPaused)
	for name, tc := range map[string]struct {
		spec HostdevSpec
		want error
		text string
	}{
		"alias":   {HostdevSpec{Alias: "hostdev0", Address: "0000:01:00.0"}, model.ErrPermanent, `"ua-"`},
		"address": {HostdevSpec{Alias: "ua-1", Address: "1:0.0"}, model.ErrPermanent, "PCI address"},
		"taken":   {HostdevSpec{Alias: "ua-dev", Address: "0000:01:00.0"}, model.ErrPermanent, "another kind"},
		"no VF":   {HostdevSpec{Alias: "ua-1", Address: "0000:fe:1f.7", TeamingPersistent: "ua-net0"}, nil, "0000:fe:1f.7"},
	} {
		err := c.Attach(within(t, patience), id(v), tc.spec)
		if err == nil || !strings.Contains(err.Error(), tc.text) || (tc.want != nil && !errors.Is(err, tc.want)) {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %v", name, err)
	}
}

// libvirt itself reads the device XML, and its output has the same meaning.
func TestDeviceXMLRoundTrip(t *testing.T) {
	d := libvirttest.Start(t)
	spec := HostdevSpec{Alias: "ua-sluice-525400000001", Address: "0000:01:10.3", TeamingPersistent: "ua-net0"}
	doc, err := spec.xml()
	if err != nil {
		t.Fatal(err)
	}
	v := libvirttest.VM{Name: "v", Ports: 2, NICs: []string{libvirttest.NIC("52:54:00:00:00:01", "ua-net0", true)}, Extra: doc}
	d.Virsh(t, "define", d.File(t, v.XML()))
	dom, err := parseDomain(d.Virsh(t, "dumpxml", v.Name))
	if err != nil {
		t.Fatal(err)
	}
	want := Hostdev{Alias: spec.Alias, Address: spec.Address, TeamingPersistent: spec.TeamingPersistent}
	if len(dom.Hostdevs) != 1 || dom.Hostdevs[0] != want {
		t.Errorf("have %+v, want %+v", dom.Hostdevs, want)
	}
	if there, err := dom.holds(spec); !there || err != nil {
		t.Errorf("holds: %v, %v", there, err)
	}
	spec.Address = "0000:01:10.4"
	if there, err := dom.holds(spec); there || !errors.Is(err, model.ErrPermanent) {
		t.Errorf("holds another address: %v, %v", there, err)
	}
}

func TestNetworkResolvesToBridge(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	d.Virsh(t, "net-create", d.File(t, "<network><name>lan</name><forward mode='bridge'/><bridge name='"+libvirttest.Bridge+"'/></network>"))
	v := libvirttest.VM{Name: "v", NICs: []string{"<interface type='network'><mac address='52:54:00:00:00:09'/><source network='lan'/><model type='virtio'/><rom enabled='no'/></interface>"}}
	d.Create(t, v)
	hasState(t, c, v, model.VMPaused)
	if n := find(t, c, v.UUID()).NICs; len(n) != 1 || n[0].Network != libvirttest.Bridge {
		t.Errorf("NICs: %+v", n)
	}
	s, err := c.session()
	if err != nil {
		t.Fatal(err)
	}
	bare := Domain{VM: model.VM{NICs: []model.NIC{{Network: unresolved + "lan"}, {Network: unresolved + "no-such"}, {Network: "br7"}}}}
	c.resolveNetworks(within(t, patience), s, &bare)
	if n := bare.NICs; n[0].Network != libvirttest.Bridge || n[1].Network != "" || n[2].Network != "br7" {
		t.Errorf("resolved: %+v", n)
	}
}
