package measure

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"sluice/api/v1"
	"sluice/internal/host/kernel"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/qualify"
	"sluice/internal/host/tap"
	"sluice/internal/host/uplink/bridge"
	"sluice/internal/model"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

// real is a host whose VFs are a fake's, and whose representors are interfaces of the kernel.
type real struct {
	*fake
	k *kernel.Host
}

func (r real) Link(ctx context.Context, name string) (netdev.Link, error) { return r.k.Link(ctx, name) }

func (r real) SetUp(ctx context.Context, name string) error { return r.k.SetUp(ctx, name) }

func (r real) Join(ctx context.Context, dev, bridge string) error { return r.k.Join(ctx, dev, bridge) }

func (r real) Leave(ctx context.Context, dev string, down bool) error {
	return r.k.Leave(ctx, dev, down)
}

func (r real) PinFDB(ctx context.Context, mac model.MAC, vlan int, port string) error {
	return r.k.PinFDB(ctx, mac, vlan, port)
}

func (r real) UnpinFDB(ctx context.Context, mac model.MAC, vlan int, port string) error {
	return r.k.UnpinFDB(ctx, mac, vlan, port)
}

func (r real) UpdateTap(ctx context.Context, name string, edit func(*tap.Policy)) (tap.Policy, error) {
	return r.k.UpdateTap(ctx, name, edit)
}

func (r real) RemoveTap(ctx context.Context, name string) error { return r.k.RemoveTap(ctx, name) }

// ends are the wires of two VFs that are the other ends of their representors, as the host's kernel sees them.
var ends = [2][2]string{{"rep0", "sluicevf0"}, {"rep1", "sluicevf1"}}

// TestPacketsInTheKernel tries the limit with frames: with such VFs, and with VFs that a NIC connects without the host, as a wire between
// them does.
func TestPacketsInTheKernel(t *testing.T) {
	for want, wires := range map[string][2][2]string{"yes": ends, "no": {{"rep0", "rep1"}, {"sluicevf0", "sluicevf1"}}} {
		t.Run(want, func(t *testing.T) {
			r := onWires(t, bridge.Kind, wires)
			kerneltest.Must(t, r.packets(t.Context()))
			c := claim(r, api.ClaimVFPackets)
			t.Log(c.Measured, c.Evidence)
			if c.Measured != want {
				t.Errorf("%q, want %q: %+v, failed %q", c.Measured, want, r.m.Packets, r.m.Failed)
			}
		})
	}
}

// TestPassesInTheKernel: what VFs send arrives at their representors, whether these are ports of a Linux bridge or, as under OVN, of nothing.
func TestPassesInTheKernel(t *testing.T) {
	for kind, toVF := range map[string]string{bridge.Kind: "yes", "ovn": "unknown"} {
		t.Run(kind, func(t *testing.T) {
			r := onWires(t, kind, ends)
			kerneltest.NewPort(t, "pf0", "br0")
			kerneltest.Must(t, r.passes(t.Context()))
			for code, want := range map[string]string{
				api.ClaimVFToPF: "yes", api.ClaimPFToVF: "yes", api.ClaimVFToVF: toVF, api.ClaimNeedsSelf: "unknown", api.ClaimLoopsToVF: "no",
			} {
				if c := claim(r, code); c.Measured != want {
					t.Errorf("%s: %q (%s), want %q", code, c.Measured, c.Evidence, want)
				}
			}
			if len(r.m.Failed) > 0 {
				t.Errorf("failed: %q", r.m.Failed)
			}
		})
	}
}

func claim(r *run, code string) (found api.Claim) {
	for _, c := range qualify.Judge(r.m).Claims {
		if c.Code == code {
			found = c
		}
	}
	return found
}

// onWires is a measurement whose two VFs and their representors are the ends of wires, and connected. At the end everything is as it was.
func onWires(t *testing.T, kind string, wires [2][2]string) *run {
	kerneltest.NewBridge(t, "br0")
	space, err := NewSpace()
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = space.Close() })
	k, err := kernel.New(kernel.Options{BPFFS: kerneltest.BPFFS(t)})
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = k.Close() })
	for _, w := range wires {
		kerneltest.IP(t, fmt.Sprintf("link add %s type veth peer name %s", w[0], w[1]))
		if strings.HasPrefix(w[0], "rep") { // the others end with the space
			t.Cleanup(func() { kerneltest.IP(t, "link del "+w[0]) })
		}
	}
	f := newSwitchdev()
	f.pf.Uplink.Kind = kind
	r := &run{Options: options(t, f), m: &qualify.Measured{Representors: true, Passes: map[string]qualify.Count{}}, space: space, pf: f.pf.PF}
	r.Kernel = real{f, k}
	r.journal = Journal{Version: journalVersion, Switch: "br0", Filters: madeUp()}
	for i := range 2 {
		rep, name := fmt.Sprintf("rep%d", i), fmt.Sprintf("sluicevf%d", i)
		kerneltest.Quiet(t, rep)
		f.in[i], f.pf.VFs[i].Driver, f.pf.VFs[i].MAC = name, "igbvf", r.address(i)
		found := Found{VF: f.pf.VFs[i]}
		kerneltest.Must(t, r.foundPort(t.Context(), &found))
		if !found.Alone || !found.Down {
			t.Errorf("before: %+v", found)
		}
		r.journal.VFs = append(r.journal.VFs, found)
		kerneltest.Must(t, k.MoveLink(t.Context(), name, name, space.FD()))
		r.vfs = append(r.vfs, &lent{was: found, driver: "igbvf", mac: r.address(i), name: name, up: true})
	}
	kerneltest.Must(t, r.connect(t.Context()))
	var up sync.WaitGroup // a wire has carrier when both ends are up
	for _, l := range r.vfs {
		up.Go(func() {
			if err := space.Up(kerneltest.Soon(t), l.name); err != nil {
				t.Error(err)
			}
		})
	}
	up.Wait()
	t.Cleanup(func() { r.asBefore(t, k) })
	return r
}

// asBefore restores the representors, and fails the test unless that leaves nothing.
func (r *run) asBefore(t *testing.T, k *kernel.Host) {
	ctx := context.WithoutCancel(t.Context())
	back := restorer{k: r.Kernel, j: &r.journal}
	for i := range r.journal.VFs {
		was := &r.journal.VFs[i]
		kerneltest.Must(t, back.representor(ctx, was))
		kerneltest.Must(t, back.leave(ctx, was))
		if out := kerneltest.IP(t, "link show "+was.Port); strings.Contains(out, "master") || strings.Contains(out, ",UP") {
			t.Errorf("at the end: %s", out)
		}
	}
	if left, err := k.TapPolicies(ctx); err != nil || len(left) > 0 {
		t.Errorf("left: %+v, %v", left, err)
	}
}
