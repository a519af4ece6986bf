package actuate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/host/libvirt"
	"sluice/internal/host/netdev"
	"sluice/internal/host/uplink"
	"sluice/internal/host/uplink/bridge"
	"sluice/internal/model"
)

// paths prints where the frames for vm1 go.
func paths(f *fakeHost) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.TrimSpace(fmt.Sprintf("fdb=%s self=%v mirror=%v", f.fdb[mac(1)], f.selfs[mac(1)], f.mirrors["tap1>pf0"]))
}

// The frames go to the path on which the guest listens, and the mirror ends only if that path is certain.
func TestFollowGuest(t *testing.T) {
	const both = "fdb=tap1 self=true mirror=true"
	has := func(f *fakeHost, open bool) {
		d := f.vm(id(1))
		d.Hostdevs = append(d.Hostdevs, libvirt.Hostdev{Alias: model.PassthroughAlias(mac(1)), Address: addr(0)})
		f.setOpen(addr(0), open)
	}
	for _, c := range []struct {
		name  string
		host  func(f *fakeHost)
		entry string
		want  string
		err   bool
	}{
		{"it uses its VF", func(f *fakeHost) { has(f, true) }, "tap1", "fdb=pf0 self=false mirror=false", false},
		{"it does not use its VF", func(f *fakeHost) { has(f, false) }, "tap1", both, false},
		{
			"whether it uses its VF cannot be seen", func(f *fakeHost) { has(f, true); f.fail["DriverOpen"] = errors.New("no") }, "tap1", both,
			false,
		},
		{"it has no VF", func(*fakeHost) {}, "tap1", "fdb=tap1 self=true mirror=false", false},
		{"another has the VF", func(f *fakeHost) {
			f.vm(id(2)).Hostdevs = []libvirt.Hostdev{{Alias: model.PassthroughAlias(mac(2)), Address: addr(0)}}
			f.setOpen(addr(0), true)
		}, "tap1", "fdb=tap1 self=true mirror=false", false},
		{"the bridge had no entry", func(*fakeHost) {}, "", "fdb= self=true mirror=false", false},
		{"the bridge had another", func(*fakeHost) {}, "tap2", "fdb=tap2 self=true mirror=false", false},
		{"the bridge had one that is gone", func(*fakeHost) {}, "tap9", "fdb=tap1 self=true mirror=false", false},
		{"libvirt does not answer", func(f *fakeHost) { has(f, true); f.fail["Domains"] = errors.New("no") }, "tap1", both, true},
		{
			"the bridge refuses", func(f *fakeHost) { has(f, true); f.fail["PinFDB"] = errors.New("no") }, "tap1", "fdb=tap1 self=false mirror=true",
			true,
		},
		{"the PF refuses", func(f *fakeHost) { f.fail["AddSelf"] = errors.New("no") }, "tap1", both, true},
	} {
		f := newFakeHost(2)
		f.fdb[mac(1)], f.selfs[mac(1)], f.mirrors["tap1>pf0"] = "tap1", true, true
		c.host(f)
		s := step(model.StepFollowGuest, 1, 0)
		s.Path.VirtioRoute = c.entry
		err := New(f, f.uplinks(), f, nil).Do(context.Background(), s)
		if got := paths(f); got != c.want || (err != nil) != c.err {
			t.Errorf("%s: %s, error %v; want %s, an error: %v", c.name, got, err, c.want, c.err)
		}
	}
}

// Where the switch takes in the guest's frames at one port only, both paths hold until the guest sends through its VF.
func TestFollowGuestThatSendsLate(t *testing.T) {
	const both, late, soon = "fdb=tap1 self=true mirror=true", 1700 * time.Millisecond, countsWithin + 10*time.Millisecond
	const toVF = "fdb=pf0 self=false mirror=false"
	for name, c := range map[string]struct {
		sends, closes time.Duration // after the start; 0: never
		took          time.Duration
		meanwhile     string // before it sends
		want          string
	}{
		"with its link": {late, 0, late, both, toVF},
		"all along":     {soon, 0, soon, toVF, toVF}, // its port stays there
		"nothing":       {0, 0, model.SilentFor, both, toVF},
		"closes again":  {0, late, model.SilentFor, both, both},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeHost(1)
			f.links = append(f.links, netdev.Link{Index: 99, Name: "rep0"})
			f.fdb[mac(1)] = "pf0"
			f.vm(id(1)).Hostdevs = []libvirt.Hostdev{{Alias: model.PassthroughAlias(mac(1)), Address: addr(0)}}
			f.setOpen(addr(0), true)
			after := func(d time.Duration, do func()) {
				if d > 0 {
					time.AfterFunc(d, func() { f.mu.Lock(); defer f.mu.Unlock(); do() })
				}
			}
			after(c.sends, func() { f.link("rep0").Counters.RxPackets++ })
			after(c.closes, func() { f.setOpen(addr(0), false) })
			time.AfterFunc(cmp.Or(c.sends, late)-time.Millisecond, func() {
				if got := paths(f); got != c.meanwhile {
					t.Errorf("%s: before it sends: %s, want %s", name, got, c.meanwhile)
				}
			})
			s := step(model.StepFollowGuest, 1, 0)
			s.Device.Port = "rep0"
			start := time.Now()
			err := New(f, f.uplinks(), f, nil).Do(t.Context(), s)
			if took := time.Since(start); err != nil || took < c.took || took > c.took+2*countsWithin+50*time.Millisecond {
				t.Errorf("%s: %v after %v, want %v", name, err, took, c.took)
			}
			if got := paths(f); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		})
	}
}

// A guest that changes over while its frames are being redirected keeps both paths.
func TestFollowGuestThatChangesOver(t *testing.T) {
	f := newFakeHost(1)
	f.fdb[mac(1)], f.selfs[mac(1)], f.mirrors["tap1>pf0"] = "tap1", true, true
	f.vm(id(1)).Hostdevs = []libvirt.Hostdev{{Alias: model.PassthroughAlias(mac(1)), Address: addr(0)}}
	f.setOpen(addr(0), true)
	a := New(f, uplink.Set{bridge.New(turncoat{f})}, f, nil)
	if err := a.Do(context.Background(), step(model.StepFollowGuest, 1, 0)); !errors.Is(err, errChangedSides) {
		t.Errorf("error %v, want %v", err, errChangedSides)
	}
	if !f.mirrors["tap1>pf0"] {
		t.Error("the mirror ended")
	}
	if err := New(f, f.uplinks(), f, nil).Do(context.Background(), step(model.StepFollowGuest, 1, 0)); err != nil {
		t.Fatal(err)
	}
	if got, want := paths(f), "fdb=tap1 self=true mirror=true"; got != want {
		t.Errorf("at the next try: %s, want %s", got, want)
	}
}

// turncoat is a host whose guest closes its VF when the bridge sends its frames there.
type turncoat struct{ *fakeHost }

func (c turncoat) PinFDB(ctx context.Context, m model.MAC, vlan int, port string) error {
	err := c.fakeHost.PinFDB(ctx, m, vlan, port)
	c.mu.Lock()
	defer c.mu.Unlock()
	if port == "pf0" {
		c.setOpen(addr(0), false)
	}
	return err
}

// A VM that is gone leaves no mirror, no bridge entry and no new filter.
func TestFollowGuestThatIsGone(t *testing.T) {
	f := newFakeHost(1)
	f.fdb[mac(1)], f.mirrors["tap1>pf0"] = "pf0", true
	f.vanish(1)
	if err := New(f, f.uplinks(), f, nil).Do(context.Background(), step(model.StepFollowGuest, 1, 0)); err != nil {
		t.Fatal(err)
	}
	if got, want := paths(f), "fdb= self=false mirror=false"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A VM whose MAC another NIC has in the same network gets no VF, but may release one.
func TestSharedMAC(t *testing.T) {
	f := newFakeHost(2)
	f.vms[1].NICs[0].MAC, f.vms[1].NICs[0].Network = mac(1), "br0"
	a := New(f, f.uplinks(), f, nil)
	s := step(model.StepCheckVirtio, 1, 0)
	if err := a.Do(context.Background(), s); !errors.Is(err, model.ErrPermanent) || !strings.Contains(err.Error(), "vm2") {
		t.Errorf("error %v, want a permanent one that names vm2", err)
	}
	f.vms[0].Hostdevs = []libvirt.Hostdev{{Alias: model.PassthroughAlias(mac(1)), Address: addr(0)}}
	if err := a.Do(context.Background(), s); err != nil {
		t.Errorf("it may not give its VF up: %v", err)
	}
	f.vms[0].Hostdevs, f.vms[1].NICs[0].Network = nil, "br7"
	if err := a.Do(context.Background(), s); err != nil {
		t.Errorf("the other is in another network: %v", err)
	}
}
