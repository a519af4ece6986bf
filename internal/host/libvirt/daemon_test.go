package libvirt

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"sluice/internal/host/libvirt/libvirttest"
	"sluice/internal/model"
)

// patience bounds waits for expected events; only failing tests wait that long. It is less than the 30 s for which libvirt itself lets a
// call wait behind a stuck one.
const patience = 25 * time.Second

// logTo writes a Conn's log to the test's.
type logTo struct{ t testing.TB }

func (l logTo) Write(b []byte) (int, error) { l.t.Logf("%s", b); return len(b), nil }

func open(t testing.TB, uri string, more ...func(*Options)) *Conn {
	t.Helper()
	o := Options{
		URI: uri, Logger: slog.New(slog.NewTextHandler(logTo{t}, nil)),
		MinBackoff: 20 * time.Millisecond, MaxBackoff: 200 * time.Millisecond,
		Watch: 500 * time.Millisecond, Resync: time.Hour, // so that the tests depend on events and not on the periodic re-read
	}
	for _, m := range more {
		m(&o)
	}
	c, err := Open(within(t, patience), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// find returns a domain of the inventory, or nil.
func find(t testing.TB, c *Conn, id string) *Domain {
	t.Helper()
	doms, err := c.Domains(context.Background())
	if err != nil {
		return nil
	}
	for i := range doms {
		if doms[i].ID == model.VMID(id) {
			return &doms[i]
		}
	}
	return nil
}

func hasState(t testing.TB, c *Conn, v libvirttest.VM, want model.VMState) {
	t.Helper()
	libvirttest.Eventually(t, patience, v.Name+" is "+string(want), func() bool {
		d := find(t, c, v.UUID())
		return d != nil && d.State == want
	})
}

// live reports whether libvirt shows the device now, bypassing the cache.
func live(t testing.TB, c *Conn, v libvirttest.VM, alias string) bool {
	t.Helper()
	s, err := c.session()
	if err != nil {
		t.Fatal(err)
	}
	there, err := c.present(within(t, patience), s, device{model.VMID(v.UUID()), alias})
	if err != nil {
		t.Fatal(err)
	}
	return there
}

func id(v libvirttest.VM) model.VMID { return model.VMID(v.UUID()) }

func TestInventoryFollowsEvents(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	a := libvirttest.VM{Name: "a", Ports: 2, NICs: []string{
		libvirttest.NIC("52:54:00:00:00:01", "ua-net0", true),
		libvirttest.NIC("52:54:00:00:00:02", "ua-net1", false),
	}, Extra: "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>"}

	d.Create(t, a)
	hasState(t, c, a, model.VMPaused)
	got := find(t, c, a.UUID())
	if !got.Started.IsZero() {
		t.Error("Started is set although it never ran")
	}
	checkLive(t, got)

	d.Virsh(t, "resume", a.Name)
	hasState(t, c, a, model.VMRunning)
	if find(t, c, a.UUID()).Started.IsZero() {
		t.Error("Started is not set")
	}
	t.Run("device added and removed", func(t *testing.T) { hotplugChangesPorts(t, d, c, a) })

	d.Virsh(t, "destroy", a.Name)
	libvirttest.Eventually(t, patience, "a is gone", func() bool { return find(t, c, a.UUID()) == nil })
	if _, err := c.Stats(within(t, patience)); err != nil {
		t.Errorf("Stats without domains: %v", err)
	}
}

func checkLive(t *testing.T, d *Domain) {
	t.Helper()
	if d.Name != "a" || d.VCPUs != 1 || d.NUMANode != -1 || d.Ready != model.No || len(d.NICs) != 2 {
		t.Fatalf("domain: %+v", d)
	}
	n := d.NICs[0]
	want := model.NIC{
		Alias: "ua-net0", MAC: model.MAC{0x52, 0x54, 0, 0, 0, 1}, Tap: n.Tap, Network: libvirttest.Bridge,
		Failover: model.FailoverTeaming, FreePort: model.Yes,
	}
	if n != want || n.Tap == "" {
		t.Errorf("NIC: %+v", n)
	}
	if m := d.NICs[1]; m.Failover != model.FailoverNone || m.Tap == n.Tap {
		t.Errorf("second NIC: %+v", m)
	}
}

func hotplugChangesPorts(t *testing.T, d *libvirttest.Daemon, c *Conn, v libvirttest.VM) {
	before := find(t, c, v.UUID()).Ports
	d.Virsh(t, "attach-device", v.Name, d.File(t, libvirttest.RNG("ua-rng")), "--live")
	libvirttest.Eventually(t, patience, "one port less", func() bool { return find(t, c, v.UUID()).Ports == before-1 })
}

// Firmware without an operating system ignores an unplug: the request can be repeated, and the wait for it ends with its context and an
// error of the guest.
func TestGuestIgnoresUnplug(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	acpi := libvirttest.VM{Name: "acpi", Ports: 1, Extra: libvirttest.RNG("ua-dev")}
	native := libvirttest.VM{Name: "native", Ports: 1, Extra: libvirttest.RNG("ua-dev"), QEMU: "<qemu:commandline>" +
		"<qemu:arg value='-global'/><qemu:arg value='ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off'/></qemu:commandline>"}
	for _, v := range []libvirttest.VM{acpi, native} {
		t.Run(v.Name, func(t *testing.T) {
			d.Create(t, v)
			d.Virsh(t, "resume", v.Name)
			hasState(t, c, v, model.VMRunning)
			for range 3 {
				if err := c.Detach(within(t, patience), id(v), "ua-dev"); err != nil {
					t.Fatalf("Detach: %v", err)
				}
			}
			err := c.WaitGone(within(t, 1500*time.Millisecond), id(v), "ua-dev")
			if !errors.Is(err, model.ErrGuest) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("WaitGone: %v", err)
			}
			if !live(t, c, v, "ua-dev") {
				t.Error("the device went although nobody gave it up")
			}
		})
	}
}

func TestWaitGoneEndsWithDomain(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	v := libvirttest.VM{Name: "v", Ports: 1, Extra: libvirttest.RNG("ua-dev")}
	d.Create(t, v)
	hasState(t, c, v, model.VMPaused)
	if err := c.Detach(within(t, patience), id(v), "ua-dev"); err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() { got <- c.WaitGone(within(t, patience), id(v), "ua-dev") }()
	d.Virsh(t, "destroy", v.Name)
	if err := <-got; !errors.Is(err, model.ErrGone) {
		t.Errorf("WaitGone: %v", err)
	}
	if err := c.Detach(within(t, patience), id(v), "ua-dev"); !errors.Is(err, model.ErrGone) {
		t.Errorf("Detach: %v", err)
	}
	err := c.Attach(within(t, patience), id(v), HostdevSpec{Alias: "ua-sluice-1", Address: "0000:ff:00.0"})
	if !errors.Is(err, model.ErrGone) {
		t.Errorf("Attach: %v", err)
	}
}

// The state of an unplug is dropped with its domain, whether or not anybody waited for it.
func TestUnplugsAreForgotten(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	v := libvirttest.VM{Name: "v", Ports: 1, Extra: libvirttest.RNG("ua-dev")}
	d.Create(t, v)
	hasState(t, c, v, model.VMPaused)
	if err := c.Detach(within(t, patience), id(v), "ua-dev"); err != nil {
		t.Fatal(err)
	}
	remembered := func() int {
		c.unplugs.mu.Lock()
		defer c.unplugs.mu.Unlock()
		return len(c.unplugs.all)
	}
	if remembered() != 1 {
		t.Error("the request is not remembered")
	}
	d.Virsh(t, "destroy", v.Name)
	libvirttest.Eventually(t, patience, "it is forgotten", func() bool { return remembered() == 0 })
}
