package realtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/host/actuate"
	"sluice/internal/host/kernel"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/netdev"
	"sluice/internal/host/observe"
	"sluice/internal/host/uplink"
	"sluice/internal/host/uplink/bridge"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

var (
	guestMAC = model.MAC{0x52, 0x54, 0, 0, 0, 1}
	lanMAC   = model.MAC{0x52, 0x54, 0, 0, 0, 2}
)

const vfAddr model.PCIAddress = "0000:01:10.0"

// host is the real kernel with one simulated VF.
type host struct {
	*kernel.Host
	pfs []vf.PFInfo
}

func (h *host) PFs(context.Context) ([]vf.PFInfo, error) { return h.pfs, nil }

func (h *host) VFCounters(context.Context, string) (map[int]netdev.Counters, error) { return nil, nil }

func (h *host) DriverOpen(context.Context, model.PCIAddress) (model.Tri, error) {
	return model.Yes, nil
}

func (h *host) BindVFIO(context.Context, model.PCIAddress) error { return nil }

func (h *host) SetVF(context.Context, string, int, vf.Settings) (string, error) { return "", nil }

func (h *host) SetVFMAC(context.Context, string, int, model.MAC) error { return nil }

func (h *host) ClearVF(context.Context, string, int) (string, error) { return "", nil }

func (h *host) WaitDriver(context.Context, model.PCIAddress, bool) error { return nil }

// domains is one VM that executes every request immediately.
type domains struct {
	mu  sync.Mutex
	all []libvirt.Domain
}

func (d *domains) Domains(context.Context) ([]libvirt.Domain, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := append([]libvirt.Domain(nil), d.all...)
	for i := range out {
		out[i].NICs = append([]model.NIC(nil), out[i].NICs...)
	}
	return out, nil
}

func (d *domains) Stats(context.Context) (map[model.VMID]libvirt.Stat, error) { return nil, nil }

func (d *domains) Unread() []model.VMID { return nil }

func (d *domains) Problems() []model.Problem { return nil }

func (d *domains) Attach(_ context.Context, _ model.VMID, s libvirt.HostdevSpec) error {
	d.set([]libvirt.Hostdev{{Alias: s.Alias, Address: s.Address, TeamingPersistent: s.TeamingPersistent}})
	return nil
}

func (d *domains) Detach(context.Context, model.VMID, string) error {
	d.set(nil)
	return nil
}

func (d *domains) WaitGone(context.Context, model.VMID, string) error { return nil }

func (d *domains) set(h []libvirt.Hostdev) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[0].Hostdevs = h
}

// rig is a bridge with a PF, a guest's tap and another VM, used with the real observe and actuate.
type rig struct {
	t              *testing.T
	wire, tap, lan *kerneltest.Port
	host           *host
	uplinks        uplink.Set
	source         *observe.Source
	actuator       *actuate.Actuator
	frames         int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	kerneltest.NewBridge(t, "br0")
	r := &rig{
		t: t, wire: kerneltest.NewPort(t, "pf0", "br0"), tap: kerneltest.NewPort(t, "tap1", "br0"),
		lan: kerneltest.NewPort(t, "lan", "br0"),
	}
	k, err := kernel.New(kernel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	h := &host{Host: k, pfs: []vf.PFInfo{{PF: model.PF{
		Name: "pf0", NumVFs: 1, VFs: []model.VF{{ID: model.VFID{PF: "pf0"}, Address: vfAddr, Driver: "vfio-pci"}},
	}}}}
	d := &domains{all: []libvirt.Domain{{VM: model.VM{
		ID: "id-1", Name: "vm1", State: model.VMRunning,
		NICs: []model.NIC{{Alias: "ua-net0", MAC: guestMAC, Tap: "tap1", Failover: model.FailoverTeaming}},
	}}}}
	r.host, r.uplinks = h, uplink.Set{bridge.New(k)}
	r.source = observe.New(h, r.uplinks, d, nil, observe.Options{Pool: observe.Pool{"pf0": {All: true}}})
	t.Cleanup(r.source.Close)
	r.actuator = actuate.New(h, r.uplinks, d, nil)
	for _, p := range []string{"pf0", "tap1", "lan"} {
		kerneltest.WaitForwarding(t, p)
	}
	return r
}

// do executes Steps and then reads the state again.
func (r *rig) do(kinds ...model.StepKind) {
	r.t.Helper()
	for _, k := range kinds {
		if err := r.try(k); err != nil {
			r.t.Fatal(err)
		}
	}
	r.source.Invalidate()
}

func (r *rig) try(k model.StepKind) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return r.actuator.Do(ctx, model.Step{
		Kind: k, Subject: model.Subject{VM: "id-1", VMName: "vm1"},
		VF:     model.VFStep{ID: model.VFID{PF: "pf0"}, Address: vfAddr, MAC: guestMAC},
		Path:   model.PathStep{MAC: guestMAC, Tap: "tap1", Network: "br0", PF: "pf0"},
		Device: model.DeviceStep{NIC: "ua-net0", MAC: guestMAC, Failover: model.FailoverTeaming, VF: model.VFID{PF: "pf0"}, Address: vfAddr},
	})
}

func (r *rig) look() *model.Snapshot {
	r.t.Helper()
	s, err := r.source.Snapshot(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) nic() model.NIC { return r.look().VMs[0].NICs[0] }

// heard sends a frame for the guest from another port of the bridge and checks who receives it. A port that must not receive it is checked
// with another frame that it must receive.
func (r *rig) heard(wire, tap bool) {
	r.t.Helper()
	r.frames++
	frame := kerneltest.Frame(guestMAC, lanMAC, fmt.Sprint("frame ", r.frames))
	mark := kerneltest.Frame([6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, lanMAC, fmt.Sprint("mark ", r.frames))
	r.lan.Send(r.t, frame)
	r.lan.Send(r.t, mark)
	for _, c := range []struct {
		port *kerneltest.Port
		want bool
	}{{r.wire, wire}, {r.tap, tap}} {
		if c.want {
			c.port.Expect(r.t, frame)
		}
		c.port.Expect(r.t, mark)
	}
}

func (r *rig) pinned(port string) {
	r.t.Helper()
	if got := r.nic().Route; got != port {
		r.t.Errorf("the Snapshot shows the MAC pinned to %q, want %q", got, port)
	}
}

// At every moment of a plug and an unplug, every frame takes the path on which the guest listens, and the Snapshot shows what was done.
func TestPlugAndUnplug(t *testing.T) {
	r := newRig(t)
	r.do(model.StepCheckVirtio)
	r.pinned("")
	r.do(model.StepBindVFIO, model.StepSetVF, model.StepAddSelf, model.StepOpenDualPath)
	r.pinned("tap1")
	r.heard(true, true)
	r.do(model.StepSetMAC, model.StepAttach, model.StepWaitGuest)
	if got := r.nic(); got.VF.PF != "pf0" || got.VFOwner != model.OwnerSluice {
		t.Errorf("after attach: %+v", got)
	}
	r.heard(true, true)
	r.do(model.StepRouteToVF)
	r.heard(true, false)
	r.do(model.StepDelSelf, model.StepCloseDualPath)
	r.pinned("pf0")
	r.heard(true, false)

	r.do(model.StepCheckVirtio, model.StepAddSelf, model.StepOpenDualPath)
	r.heard(true, true)
	r.do(model.StepDetach, model.StepWaitGone, model.StepRouteToTap, model.StepClearVF, model.StepCloseDualPath)
	r.pinned("tap1")
	r.heard(false, true)
	if got := r.nic(); got.VF != model.NoVF {
		t.Errorf("after detach: %+v", got)
	}
}

// When a tap vanished with its VM, cleaning up does not fail and leaves no entry that sends its frames to the PF.
func TestVanishedTap(t *testing.T) {
	r := newRig(t)
	r.do(model.StepOpenDualPath, model.StepRouteToVF)
	r.pinned("pf0")
	if err := r.tap.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tap is gone", func() bool { return r.nic().TapIndex == 0 })
	r.do(model.StepClearVF, model.StepDelSelf, model.StepCloseDualPath, model.StepRouteToTap)
	if out := kerneltest.Bridge(t, "fdb show dev pf0 state static"); out != "" {
		t.Errorf("left on the PF: %s", out)
	}
	if err := r.try(model.StepOpenDualPath); !errors.Is(err, model.ErrPermanent) { // its VM is not gone
		t.Errorf("open-dual-path without a tap: %v, want that trying again will not help", err)
	}
}

// The next Snapshot and check-virtio detect a broken virtio path.
func TestBrokenVirtio(t *testing.T) {
	r := newRig(t)
	kerneltest.NewBridge(t, "br7")
	for _, c := range []struct {
		name, spoil, repair string
		network             string
		up                  model.Tri
	}{
		{"down", "link set tap1 down", "link set tap1 up", "br0", model.No},
		{"no bridge", "link set tap1 nomaster", "link set tap1 master br0", "", model.No},
		{"other bridge", "link set tap1 master br7", "link set tap1 master br0", "br7", model.Yes},
		{"bridge down", "link set br0 down", "link set br0 up", "br0", model.No},
	} {
		kerneltest.IP(t, c.spoil)
		if err := r.try(model.StepCheckVirtio); err == nil {
			t.Errorf("%s: check-virtio found nothing", c.name)
		}
		eventually(t, c.name+": the Snapshot shows it", func() bool {
			n := r.nic()
			return n.LinkUp == c.up && n.Network == c.network
		})
		kerneltest.IP(t, c.repair)
		eventually(t, c.name+": repaired", func() bool { return r.try(model.StepCheckVirtio) == nil && r.nic().LinkUp == model.Yes })
	}
}

// The rates are those of the frames that went through the tap, as the guest counts them.
func TestRates(t *testing.T) {
	r := newRig(t)
	// The exact time of the kernel's reading is unknown, only that it lies between two times.
	asked := func() (s *model.Snapshot, from, to time.Time) {
		from = time.Now()
		s = r.look()
		return s, from, time.Now()
	}
	_, from, to := asked()
	const frames = 500
	for i := range frames {
		r.tap.Send(t, kerneltest.Frame(lanMAC, guestMAC, fmt.Sprint("out ", i)))
	}
	var s *model.Snapshot
	var from2, to2 time.Time
	eventually(t, "a figure is made", func() bool {
		s, from2, to2 = asked()
		return s.VMs[0].NICs[0].Virtio.Known
	})
	v := s.VMs[0].NICs[0].Virtio
	least, most := frames/to2.Sub(from).Seconds(), frames/from2.Sub(to).Seconds()
	if v.TxPPS < least || v.TxPPS > most || v.RxPPS != 0 || v.Proof != model.ProofKernel {
		t.Errorf("got %+v; want %.1f to %.1f frames sent a second and none received", v, least, most)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(time.Minute) // only a test that fails waits so long
	for !ok() {
		select {
		case <-limit:
			t.Fatalf("never: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
