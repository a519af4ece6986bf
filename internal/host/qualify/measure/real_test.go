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
	"sluice/internal/model"
)

func TestMain(m *testing.M) { kerneltest.Main(m) }

// real is a host whose VFs are a fake's, and whose representors are interfaces of the kernel.
type real struct {
	*fake
	k *kernel.Host
}

func (r real) Link(ctx context.Context, name string) (netdev.Link, error) { return r.k.Link(ctx, name) }

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

// TestPacketsInTheKernel tries the limit with frames: VFs that are the other ends of their representors, as the host's kernel sees them,
// and VFs that a NIC connects without the host, as a wire between them does.
func TestPacketsInTheKernel(t *testing.T) {
	for want, wires := range map[string][2][2]string{
		"yes": {{"rep0", "sluicevf0"}, {"rep1", "sluicevf1"}},
		"no":  {{"rep0", "rep1"}, {"sluicevf0", "sluicevf1"}},
	} {
		t.Run(want, func(t *testing.T) { packetsInTheKernel(t, want, wires) })
	}
}

func packetsInTheKernel(t *testing.T, want string, wires [2][2]string) {
	kerneltest.NewBridge(t, "br0")
	space, err := NewSpace()
	kerneltest.Must(t, err)
	defer space.Close()
	k, err := kernel.New(kernel.Options{BPFFS: kerneltest.BPFFS(t)})
	kerneltest.Must(t, err)
	defer k.Close()
	for _, w := range wires {
		kerneltest.IP(t, fmt.Sprintf("link add %s type veth peer name %s", w[0], w[1]))
	}
	defer kerneltest.IP(t, "link del rep0")
	if want == "yes" {
		defer kerneltest.IP(t, "link del rep1")
	}
	f := newSwitchdev()
	r := &run{Options: options(t, f), m: &qualify.Measured{}, space: space}
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
	for i := range 2 { // a wire has carrier when both ends are up
		kerneltest.IP(t, fmt.Sprintf("link set rep%d up", i))
	}
	var up sync.WaitGroup
	for _, l := range r.vfs {
		up.Go(func() {
			if err := space.Up(kerneltest.Soon(t), l.name); err != nil {
				t.Error(err)
			}
		})
	}
	up.Wait()
	kerneltest.Must(t, r.packets(t.Context()))
	q := qualify.Judge(r.m)
	got := ""
	for _, c := range q.Claims {
		if c.Code == api.ClaimVFPackets {
			got = c.Measured
			t.Log(c.Measured, c.Evidence)
		}
	}
	if got != want {
		t.Errorf("%q, want %q: %+v, failed %q", got, want, r.m.Packets, r.m.Failed)
	}
	back := restorer{k: r.Kernel, j: &r.journal}
	for i := range r.journal.VFs {
		was := &r.journal.VFs[i]
		kerneltest.Must(t, back.representor(t.Context(), was))
		kerneltest.Must(t, back.leave(t.Context(), was))
		if out := kerneltest.IP(t, "link show "+was.Port); strings.Contains(out, "master") || strings.Contains(out, ",UP") {
			t.Errorf("at the end: %s", out)
		}
	}
	if left, err := k.TapPolicies(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("left: %+v, %v", left, err)
	}
}
