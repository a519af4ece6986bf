package realtest

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/host/actuate"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/observe"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// Links gives the interfaces what only the driver of a NIC in mode switchdev can: pf0 is its port, and rep0 the representor of its VF.
func (h *host) Links(ctx context.Context) ([]netdev.Link, error) {
	links, err := h.Host.Links(ctx)
	for i := range links {
		if port, ours := map[string]string{"pf0": "p0", "rep0": "pf0vf0"}[links[i].Name]; ours && h.pfs[0].Eswitch == model.EswitchSwitchdev {
			links[i].Switch, links[i].Port = "a1", port
		}
	}
	return links, err
}

func (h *host) SetVFRates(context.Context, string, int, vf.Rates) (vf.Rates, error) {
	return vf.Rates{}, nil
}

// TestPacketsAtRepresentor limits what a VF sends where it enters the host. The VF is the other end of rep0.
func TestPacketsAtRepresentor(t *testing.T) {
	const limit = 1000
	r := newRig(t)
	vfPort := kerneltest.NewPort(t, "rep0", "br0")
	kerneltest.IP(t, "link add sink0 type veth peer name sink1")
	t.Cleanup(func() { kerneltest.IP(t, "link del sink0") })
	kerneltest.Quiet(t, "sink0")
	kerneltest.IP(t, "link set sink0 master br0 up")
	kerneltest.IP(t, "link set sink1 up")
	kerneltest.WaitForwarding(t, "sink0")
	r.host.pfs[0].Eswitch = model.EswitchSwitchdev
	applied := observe.Applied{Source: r.source, Uplinks: r.uplinks, Taps: r.host}
	look := func() (*model.Snapshot, *model.VF) {
		t.Helper()
		r.source.Invalidate()
		snap, err := applied.Snapshot(t.Context())
		kerneltest.Must(t, err)
		snap.PFs[0].Caps.MaxTxRate, snap.PFs[0].Caps.VFPackets = model.Yes, model.Yes
		return snap, &snap.PFs[0].VFs[0]
	}
	if _, vf := look(); vf.Port != "rep0" || vf.MaxPackets != 0 {
		t.Fatalf("before: %+v", vf)
	}
	do := func(kind model.StepKind, packets uint64) {
		t.Helper()
		kerneltest.Must(t, r.actuator.Do(t.Context(), model.Step{
			Kind: kind, Subject: model.Subject{VM: "id-1"},
			VF:     model.VFStep{ID: model.VFID{PF: "pf0"}, Address: vfAddr, MAC: guestMAC, Port: "rep0", MaxPackets: packets},
			Device: model.DeviceStep{NIC: "ua-net0", MAC: guestMAC},
		}))
	}
	// passes sends more than the limit for a while, and returns how many frames were sent, how many passed the bridge, and how many a limit
	// lets pass at most: its burst of 0.1 s, and its rate for as long as it took.
	passes := func() (sent, got, most float64) {
		t.Helper()
		before, begin := flooded(t), time.Now()
		for sent < 2*limit || time.Since(begin) < 300*time.Millisecond {
			vfPort.Send(t, kerneltest.Frame(lanMAC, guestMAC, "x"))
			sent++
		}
		got = flooded(t) - before
		return sent, got, limit*(time.Since(begin).Seconds()+0.1) + 2
	}
	if sent, got, _ := passes(); got != sent {
		t.Fatalf("%v of %v frames passed without a limit", got, sent)
	}
	do(model.StepSetVF, limit)
	snap, vf := look()
	if vf.MaxPackets != limit || len(snap.Limited) > 0 {
		t.Errorf("after set-vf: %+v, limited %v", vf, snap.Limited)
	}
	if sent, got, most := passes(); got > most || got >= sent {
		t.Errorf("%v of %v frames passed, want at most %v", got, sent, most)
	}
	// The VF is the VM's: its limit is neither a leftover nor swept away, and changes with the SLA.
	kerneltest.Must(t, r.actuator.Do(t.Context(), model.Step{
		Kind: model.StepAttach, Subject: model.Subject{VM: "id-1"},
		Device: model.DeviceStep{NIC: "ua-net0", MAC: guestMAC, Failover: model.FailoverTeaming, VF: model.VFID{PF: "pf0"}, Address: vfAddr},
	}))
	snap, _ = look()
	kerneltest.Must(t, actuate.NewPolice(r.host).Sweep(t.Context(), snap))
	if _, vf = look(); vf.MaxPackets != limit {
		t.Errorf("after a sweep, the VM's VF: %+v", vf)
	}
	for _, packets := range []uint64{2 * limit, 0, limit} {
		l := model.Limit{LimitKey: model.LimitKey{VM: "id-1", NIC: "ua-net0", Path: model.PathVF, Dir: model.Tx}}
		l.Contract.Packets = packets
		now, err := r.actuator.Limits().Apply(t.Context(), snap, []model.Limit{l})
		if err != nil || len(now) != 1 || now[0].Packets != packets {
			t.Errorf("applied %+v, %v; want %d packets/s", now, err, packets)
		}
		if snap, vf = look(); vf.MaxPackets != packets {
			t.Errorf("the Snapshot shows %d packets/s, want %d", vf.MaxPackets, packets)
		}
	}
	do(model.StepDetach, 0)
	do(model.StepClearVF, 0)
	if snap, vf := look(); vf.MaxPackets != 0 || len(snap.Limited) > 0 {
		t.Errorf("after clear-vf: %+v, limited %v", vf, snap.Limited)
	}
	if sent, got, _ := passes(); got != sent {
		t.Errorf("%v of %v frames passed when the limit was gone", got, sent)
	}
}

// flooded returns how many frames the bridge has sent out of a port that it sends all of the VF's frames to.
func flooded(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile("/sys/class/net/sink0/statistics/tx_packets")
	kerneltest.Must(t, err)
	n, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	kerneltest.Must(t, err)
	return n
}
