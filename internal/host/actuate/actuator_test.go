package actuate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"sluice/internal/host/libvirt"
	"sluice/internal/host/netdev"
	"sluice/internal/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var plug = []model.StepKind{
	model.StepCheckVirtio, model.StepBindVFIO, model.StepSetVF, model.StepAddSelf, model.StepOpenDualPath,
	model.StepSetMAC, model.StepAttach, model.StepWaitGuest, model.StepRouteToVF, model.StepDelSelf,
	model.StepCloseDualPath, model.StepAnnounce,
}

var unplug = []model.StepKind{
	model.StepCheckVirtio, model.StepAddSelf, model.StepOpenDualPath, model.StepDetach, model.StepWaitGone,
	model.StepRouteToTap, model.StepClearVF, model.StepCloseDualPath, model.StepAnnounce,
}

// step returns a Step of VM n and VF i.
func step(k model.StepKind, n, i int) model.Step {
	return model.Step{
		Kind: k, Subject: model.Subject{VM: id(n), VMName: fmt.Sprintf("vm%d", n)},
		VF:   model.VFStep{ID: model.VFID{PF: "pf0", Index: i}, Address: addr(i), MAC: mac(n), VLAN: 7, MaxTxRate: 1e9},
		Path: model.PathStep{MAC: mac(n), VLAN: 7, Tap: tapName(n), Network: "br0", PF: "pf0"},
		Device: model.DeviceStep{
			NIC: "ua-net0", MAC: mac(n), Failover: model.FailoverTeaming, VF: model.VFID{PF: "pf0", Index: i},
			Address: addr(i),
		},
	}
}

// doAll executes the Steps, each as often as requested, and returns the first error.
func doAll(f *fakeHost, kinds []model.StepKind, n, i, times int) error {
	a := New(f, f.uplinks(), f, nil)
	for _, k := range kinds {
		for range times {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			err := a.Do(ctx, step(k, n, i))
			cancel()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

const pluggedText = `vf 0 vfio-pci mac 52:54:00:00:00:01 {VLAN:7 SpoofCheck:true Trust:false MaxTxRate:1000000000 MinTxRate:0} open
vf 1 igbvf
fdb 52:54:00:00:00:01 pf0
vm1 has 0000:01:10.0 as ua-sluice-525400000001 behind "ua-net0"
`

const unpluggedText = `vf 0 vfio-pci {VLAN:0 SpoofCheck:true Trust:false MaxTxRate:0 MinTxRate:0}
vf 1 igbvf
fdb 52:54:00:00:00:01 tap1
self 52:54:00:00:00:01
`

// A plug and an unplug leave the intended state, even if every Step is executed twice.
func TestPlugAndUnplug(t *testing.T) {
	for times := 1; times <= 2; times++ {
		f := newFakeHost(2)
		if err := doAll(f, plug, 1, 0, times); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(pluggedText, f.String()); diff != "" {
			t.Errorf("plugged, each Step %d times, -want +got:\n%s", times, diff)
		}
		if err := doAll(f, unplug, 1, 0, times); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(unpluggedText, f.String()); diff != "" {
			t.Errorf("unplugged, each Step %d times, -want +got:\n%s", times, diff)
		}
	}
}

// A guest with a bond gets its VF without teaming.
func TestAttachForBond(t *testing.T) {
	f := newFakeHost(1)
	s := step(model.StepAttach, 1, 0)
	s.Device.Failover = model.FailoverBond
	if err := New(f, f.uplinks(), f, nil).Do(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	if want := `vm1 has 0000:01:10.0 as ua-sluice-525400000001 behind ""`; !strings.Contains(f.String(), want) {
		t.Errorf("no %q in\n%s", want, f)
	}
}

// In whatever order the Steps of two VMs are executed, and whichever of them fail, no VF gets a second holder, and none loses its holder's
// MAC.
func TestAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(150) {
			r := rand.New(rand.NewPCG(seed, 1))
			f := newFakeHost(2)
			a := New(f, f.uplinks(), f, nil)
			kinds := slices.Concat(plug, unplug)
			for range 60 {
				s := step(kinds[r.IntN(len(kinds))], 1+r.IntN(2), r.IntN(2))
				f.fail = map[string]error{}
				if r.IntN(4) == 0 {
					f.fail[[]string{"SetVFMAC", "Attach", "ClearVF", "PinFDB", "Domains", "WaitGone"}[r.IntN(6)]] = errors.New("no")
				}
				before := holders(t, f)
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
				_ = a.Do(ctx, s)
				cancel()
				for addr, was := range holders(t, f) {
					if had, ok := before[addr]; ok && was != had && was.mac != was.nic {
						t.Fatalf("seed %d: %s changed %s from %v to %v\n%s", seed, s, addr, had, was, f)
					}
				}
			}
		}
	})
}

// held is the state of a held VF and of its holder's NIC.
type held struct{ mac, nic model.MAC }

// holders returns the holder of each VF, and fails if a VF has two.
func holders(t *testing.T, f *fakeHost) map[model.PCIAddress]held {
	t.Helper()
	has := map[model.PCIAddress]held{}
	for n := range f.vms {
		for _, h := range f.vms[n].Hostdevs {
			if _, twice := has[h.Address]; twice {
				t.Fatalf("two have %s\n%s", h.Address, f)
			}
			has[h.Address] = held{f.vfAt(h.Address).mac, f.vms[n].NICs[0].MAC}
		}
	}
	return has
}

func TestCheckVirtio(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*fakeHost)
		want  string
		is    error
	}{
		{"sound", func(*fakeHost) {}, "", nil},
		{"no VM", func(f *fakeHost) { f.vanish(1) }, "domain id-1: gone", model.ErrGone},
		{"paused", func(f *fakeHost) { f.vms[0].State = model.VMPaused }, "the domain is paused", nil},
		{"migrating", func(f *fakeHost) { f.vms[0].State = model.VMMigrating }, "the domain is migrating", nil},
		{"no NIC", func(f *fakeHost) { f.vms[0].NICs = nil }, "the domain has no virtio NIC ua-net0", model.ErrPermanent},
		{"other MAC", func(f *fakeHost) { f.vms[0].NICs[0].MAC = mac(9) }, "has MAC 52:54:00:00:00:09 now", model.ErrPermanent},
		{"other tap", func(f *fakeHost) { f.vms[0].NICs[0].Tap = "tap9" }, "has tap tap9 now, not tap1", nil},
		{"no teaming", func(f *fakeHost) { f.vms[0].NICs[0].Failover = "" }, "has no <teaming type='persistent'/>", model.ErrPermanent},
		{"no tap", func(f *fakeHost) { f.link("tap1").Name = "x" }, "tap tap1 is not there", nil},
		{"tap down", func(f *fakeHost) { f.link("tap1").Up = false }, "tap tap1 is down", nil},
		{"no carrier", func(f *fakeHost) { f.link("tap1").Carrier = false }, "tap tap1 has no carrier", nil},
		{"no bridge", func(f *fakeHost) { f.link("tap1").Master = 0 }, "tap tap1 is in no bridge", nil},
		{"other bridge", func(f *fakeHost) { f.link("tap1").Master = 3 }, "tap tap1 is in br7 (bridge), not in bridge br0", nil},
		{"bridge down", func(f *fakeHost) { f.link("br0").Up = false }, "br0, which tap tap1 is a port of, is down", nil},
		{"bridge gone", func(f *fakeHost) { f.link("tap1").Master = 99 }, "link 99, which is not there", nil},
		{"other switch", func(f *fakeHost) { f.link("br0").Kind = "openvswitch" }, "tap tap1 is in br0 (openvswitch), not in bridge br0", nil},
		{"libvirt away", func(f *fakeHost) { f.fail["Domains"] = errors.New("no libvirt") }, "no libvirt", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFakeHost(1)
			c.spoil(f)
			err := New(f, f.uplinks(), f, nil).Do(context.Background(), step(model.StepCheckVirtio, 1, 0))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			for _, class := range []error{model.ErrGone, model.ErrPermanent, model.ErrGuest} {
				if errors.Is(err, class) != errors.Is(c.is, class) {
					t.Errorf("%v: is %v: %v", err, class, errors.Is(err, class))
				}
			}
		})
	}
}

// The Steps that change a VF's settings do not touch one that somebody else has.
func TestClaimedVF(t *testing.T) {
	for _, k := range []model.StepKind{model.StepBindVFIO, model.StepSetVF, model.StepSetMAC, model.StepAttach, model.StepClearVF} {
		for name, h := range map[string]struct {
			vm    int
			alias string
		}{
			"by another VM": {1, "hostdev0"}, "by another VM with its MAC": {1, model.PassthroughAlias(mac(1))},
			"by another VM of ours": {1, model.PassthroughAlias(mac(2))}, "by hand in the same VM": {0, "hostdev0"},
		} {
			t.Run(string(k)+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFakeHost(2)
					f.vms[h.vm].Hostdevs = []libvirt.Hostdev{{Alias: h.alias, Address: addr(0)}}
					before := f.String()
					if err := New(f, f.uplinks(), f, nil).Do(context.Background(), step(k, 1, 0)); err == nil {
						t.Error("no error")
					}
					if diff := cmp.Diff(before, f.String()); diff != "" {
						t.Errorf("it changed something:\n%s", diff)
					}
				})
			})
		}
	}
}

// A guest that did not release the VF keeps its MAC.
func TestClearOfAHeldVF(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeHost(1)
		if err := doAll(f, plug, 1, 0, 1); err != nil {
			t.Fatal(err)
		}
		err := New(f, f.uplinks(), f, nil).Do(context.Background(), step(model.StepClearVF, 1, 0))
		if err == nil || !strings.Contains(err.Error(), "vm1 still has the VF") {
			t.Errorf("got %v", err)
		}
		if diff := cmp.Diff(pluggedText, f.String()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// libvirt's inventory shows a removal with a delay.
func TestClearWaitsForTheInventory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeHost(1)
		if err := doAll(f, plug, 1, 0, 1); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(500*time.Millisecond, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.release(id(1), model.PassthroughAlias(mac(1)))
		})
		if err := New(f, f.uplinks(), f, nil).Do(context.Background(), step(model.StepClearVF, 1, 0)); err != nil {
			t.Error(err)
		}
	})
}

// After its VM and tap are gone, cleaning up does not fail and leaves nothing behind.
func TestVanishedVM(t *testing.T) {
	f := newFakeHost(1)
	if err := doAll(f, plug, 1, 0, 1); err != nil {
		t.Fatal(err)
	}
	f.selfs[mac(1)] = true
	f.vanish(1)
	for _, k := range []model.StepKind{model.StepCheckVirtio, model.StepOpenDualPath, model.StepAttach, model.StepDetach, model.StepWaitGone} {
		if err := New(f, f.uplinks(), f, nil).Do(context.Background(), step(k, 1, 0)); !errors.Is(err, model.ErrGone) {
			t.Errorf("%s: got %v, want gone", k, err)
		}
	}
	cleanup := []model.StepKind{model.StepRouteToTap, model.StepClearVF, model.StepDelSelf, model.StepCloseDualPath, model.StepAnnounce}
	if err := doAll(f, cleanup, 1, 0, 2); err != nil {
		t.Error(err)
	}
	want := `vf 0 vfio-pci {VLAN:0 SpoofCheck:true Trust:false MaxTxRate:0 MinTxRate:0} open
vf 1 igbvf
`
	if diff := cmp.Diff(want, f.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A missing answer from libvirt says nothing about the VM: the Step is retried, and the VM is not cleaned up as if it were gone.
func TestNoAnswerIsNotGone(t *testing.T) {
	f := newFakeHost(1)
	f.fail["AddSelf"], f.fail["Domains"] = model.ErrGone, errors.New("no libvirt")
	err := New(f, f.uplinks(), f, nil).Do(context.Background(), step(model.StepAddSelf, 1, 0))
	if err == nil || errors.Is(err, model.ErrGone) || errors.Is(err, model.ErrPermanent) || !strings.Contains(err.Error(), "no libvirt") {
		t.Errorf("got %v, want an error that says neither that the VM is gone nor that trying again will not help", err)
	}
}

// close-dual-path also removes the entry that sends a vanished VM's frames to the PF.
func TestCloseDualPathOfVanishedVM(t *testing.T) {
	f := newFakeHost(1)
	f.fdb[mac(1)] = "pf0"
	f.vanish(1)
	if err := doAll(f, []model.StepKind{model.StepCloseDualPath}, 1, 0, 1); err != nil {
		t.Fatal(err)
	}
	if len(f.fdb) != 0 {
		t.Errorf("left: %v", f.fdb)
	}
}

// The bridge port of a PF in a bond is the bond.
func TestBondedPF(t *testing.T) {
	f := newFakeHost(1)
	f.link("pf0").Master = 4
	f.links = append(f.links, netdev.Link{Index: 4, Name: "bond0", Kind: "bond", Master: 1, Up: true})
	a := New(f, f.uplinks(), f, nil)
	do := func(kinds ...model.StepKind) {
		t.Helper()
		for _, k := range kinds {
			s := step(k, 1, 0)
			s.Path.Uplink = "bond0"
			if err := a.Do(t.Context(), s); err != nil {
				t.Fatalf("%s: %v", k, err)
			}
		}
	}
	do(plug...)
	if f.fdb[mac(1)] != "bond0" {
		t.Errorf("plugged: entries %v, want one to the bond", f.fdb)
	}
	f.vanish(1)
	do(model.StepCloseDualPath)
	if len(f.fdb) != 0 {
		t.Errorf("the VM has gone, its entry has not: %v", f.fdb)
	}
}

// It is not an error to clear a VF that is gone. The other Steps on it fail, but do not report the VM as gone.
func TestVanishedVF(t *testing.T) {
	f := newFakeHost(1)
	a := New(f, f.uplinks(), f, nil)
	if err := a.Do(context.Background(), step(model.StepClearVF, 1, 5)); err != nil {
		t.Errorf("clear: %v", err)
	}
	for _, k := range []model.StepKind{model.StepBindVFIO, model.StepSetVF, model.StepSetMAC} {
		if err := a.Do(context.Background(), step(k, 1, 5)); !errors.Is(err, model.ErrPermanent) || errors.Is(err, model.ErrGone) {
			t.Errorf("%s: got %v, want that trying again will not help", k, err)
		}
	}
}

func TestWaitGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeHost(1)
		a := New(f, f.uplinks(), f, nil)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		start := time.Now()
		time.AfterFunc(3*time.Second, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.setOpen(addr(0), true)
		})
		if err := a.Do(ctx, step(model.StepWaitGuest, 1, 0)); err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("opened: %v after %v", err, time.Since(start))
		}
		start = time.Now()
		time.AfterFunc(3*time.Second, func() { f.vanish(1) })
		err := a.Do(ctx, step(model.StepWaitGuest, 1, 1))
		if !errors.Is(err, model.ErrGone) || errors.Is(err, model.ErrGuest) || time.Since(start) > 4*time.Second {
			t.Errorf("vanished: %v after %v", err, time.Since(start))
		}
		f = newFakeHost(1)
		err = New(f, f.uplinks(), f, nil).Do(ctx, step(model.StepWaitGuest, 1, 1))
		if !errors.Is(err, model.ErrGuest) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, model.ErrGone) {
			t.Errorf("no driver: %v", err)
		}
	})
}

// A switch that takes in the guest's frames at one port only is not told of the VF before the guest sends through it.
func TestWaitGuestThatSends(t *testing.T) {
	const late = 1700 * time.Millisecond
	for name, c := range map[string]struct {
		sends, gone    time.Duration // after the start; 0: never
		unread, vanish time.Duration // when the representor can be read, and when the VM is gone
		want           time.Duration
		err            error
		counted        map[string]uint64
	}{
		"with its link":           {sends: late, want: late},
		"counted late":            {sends: late, want: late, counted: map[string]uint64{"rep0": 3}},
		"not readable at first":   {sends: late, unread: time.Millisecond, want: late},
		"not readable for long":   {sends: 2 * late, unread: late, want: 2 * late},
		"VM gone meanwhile":       {vanish: late, want: 1750 * time.Millisecond, err: model.ErrGone},
		"before its driver opens": {sends: 500 * time.Millisecond, want: time.Second},
		"nothing":                 {want: time.Second + model.SilentFor},
		"representor gone":        {gone: late, want: late},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeHost(1)
			f.links = append(f.links, netdev.Link{Index: 99, Name: "rep0", Counters: netdev.Counters{RxPackets: 7}})
			f.counted = c.counted
			after := func(d time.Duration, do func()) {
				if d > 0 {
					time.AfterFunc(d, func() { f.mu.Lock(); defer f.mu.Unlock(); do() })
				}
			}
			after(time.Second, func() { f.setOpen(addr(0), true) })
			after(c.sends, func() { f.link("rep0").Counters.RxPackets++ })
			after(c.gone, func() { f.links = f.links[:len(f.links)-1] })
			if c.unread > 0 {
				f.fail["Link"] = unix.EINTR
				after(c.unread, func() { delete(f.fail, "Link") })
			}
			if c.vanish > 0 {
				time.AfterFunc(c.vanish, func() { f.vanish(1) })
			}
			s := step(model.StepWaitGuest, 1, 0)
			s.Device.Port = "rep0"
			start := time.Now()
			err := New(f, f.uplinks(), f, nil).Do(t.Context(), s)
			if took := time.Since(start); !errors.Is(err, c.err) || took < c.want || took > c.want+50*time.Millisecond {
				t.Errorf("%s: %v after %v, want %v after %v", name, err, took, c.err, c.want)
			}
		})
	}
}

// While libvirt is unreachable, a VM does not count as gone.
func TestWaitGuestWithoutLibvirt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeHost(1)
		f.fail["Domains"] = errors.New("no libvirt")
		time.AfterFunc(3*time.Second, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.setOpen(addr(0), true)
		})
		if err := New(f, f.uplinks(), f, nil).Do(context.Background(), step(model.StepWaitGuest, 1, 0)); err != nil {
			t.Error(err)
		}
	})
}

// A guest that ignores the request keeps receiving its frames on the VF.
func TestWaitGoneIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeHost(1)
		if err := doAll(f, plug, 1, 0, 1); err != nil {
			t.Fatal(err)
		}
		f.gone = func(model.VMID, string) {}
		err := doAll(f, []model.StepKind{model.StepDetach, model.StepWaitGone}, 1, 0, 1)
		if !errors.Is(err, model.ErrGuest) {
			t.Errorf("got %v, want the guest blamed", err)
		}
		if diff := cmp.Diff(pluggedText, f.String()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// Tolerable failures are logged, with VM and VF.
func TestNotes(t *testing.T) {
	for _, c := range []struct {
		kind model.StepKind
		fail string
		err  error
		want string
	}{
		{model.StepSetVF, "", nil, "rate not enforced"},
		{
			model.StepAddSelf, "AddSelf", fmt.Errorf("add filter: %w", unix.ENOMEM),
			"VFs cannot reach this VM's virtio NIC: add filter: cannot allocate memory",
		},
		{model.StepAddSelf, "AddSelf", unix.ENOSPC, "no space left on device"},
		{model.StepAddSelf, "AddSelf", unix.EOPNOTSUPP, "operation not supported"},
		{model.StepAnnounce, "Announce", errors.New("no carrier"), "switches could not be told: no carrier"},
	} {
		f := newFakeHost(1)
		f.fail[c.fail] = c.err
		var log bytes.Buffer
		if err := New(f, f.uplinks(), f, slog.New(slog.NewTextHandler(&log, nil))).Do(context.Background(), step(c.kind, 1, 0)); err != nil {
			t.Errorf("%s: %v", c.kind, err)
		}
		for _, want := range []string{c.want, "vm=vm1", "vf=pf0/0", "step=" + string(c.kind)} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: no %q in the log:\n%s", c.kind, want, &log)
			}
		}
	}
}

// Every other failed call fails the Step, and its error has the cause.
func TestFailures(t *testing.T) {
	for call, k := range map[string]model.StepKind{
		"BindVFIO": model.StepBindVFIO, "SetVF": model.StepSetVF, "SetVFMAC": model.StepSetMAC, "ClearVF": model.StepClearVF,
		"PinFDB": model.StepRouteToTap, "PreparePort": model.StepOpenDualPath, "OpenDualPath": model.StepOpenDualPath,
		"CloseDualPath": model.StepCloseDualPath, "AddSelf": model.StepAddSelf, "DelSelf": model.StepDelSelf,
		"Attach": model.StepAttach, "Detach": model.StepDetach, "WaitGone": model.StepWaitGone, "Domains": model.StepClearVF,
		"Link": model.StepCheckVirtio, "Links": model.StepCheckVirtio,
	} {
		f := newFakeHost(1)
		cause := errors.New("broken " + call)
		f.fail[call] = cause
		err := New(f, f.uplinks(), f, nil).Do(context.Background(), step(k, 1, 0))
		if !errors.Is(err, cause) {
			t.Errorf("%s with a broken %s: %v", k, call, err)
		}
	}
}

func TestUnknownStep(t *testing.T) {
	f := newFakeHost(1)
	if err := New(f, f.uplinks(), f, nil).Do(context.Background(), model.Step{Kind: "dance"}); !errors.Is(err, model.ErrPermanent) {
		t.Errorf("got %v", err)
	}
	for _, k := range slices.Concat(plug, unplug) {
		if err := New(f, f.uplinks(), f, nil).Do(context.Background(), step(k, 1, 0)); err != nil &&
			strings.Contains(err.Error(), "no such kind") {
			t.Error(err)
		}
	}
}

// A restart of libvirtd in the middle of a move delays the move but does not fail it.
func TestStepsWaitForLibvirtd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeHost(1)
		away := func(d time.Duration) {
			f.fail["Domains"] = libvirt.ErrDisconnected
			time.AfterFunc(d, func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				delete(f.fail, "Domains")
			})
		}
		for _, c := range []struct {
			away time.Duration
			ok   bool
		}{{3 * time.Second, true}, {time.Minute, false}} {
			away(c.away)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			err := New(f, f.uplinks(), f, nil).Do(ctx, step(model.StepCheckVirtio, 1, 0))
			cancel()
			if (err == nil) != c.ok || (err != nil && !errors.Is(err, libvirt.ErrDisconnected)) {
				t.Errorf("libvirtd away for %s: %v", c.away, err)
			}
		}
	})
}
