//go:build lab

package lab_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"sluice/lab"
)

// A VF is attached and detached manually; the guest sees it, and its traffic is visible without an agent.
func TestSmoke(t *testing.T) {
	t.Parallel()
	h := lab.ForTest(t, "vm1", "vm2")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	began := time.Now()
	must(t, h.AttachVF(ctx, "vm1", "pf0", 1))
	t.Logf("attach call: %v", time.Since(began))
	var vf string
	must(t, lab.Eventually(ctx, 30*time.Second, "carrier of the VF in vm1", func() (bool, error) {
		name, carrier, err := h.GuestVF(ctx, "vm1")
		vf = name
		return carrier, err
	}))
	t.Logf("carrier: %v", time.Since(began))
	// The kernel has paired it, so nothing may put it into a bond.
	out, err := h.GuestExec(ctx, "vm1", "/usr/lib/sluice-guest/bond find "+vf+" || echo none")
	must(t, err)
	if got := strings.TrimSpace(out); got != "none" {
		t.Errorf("the VF of a guest with net_failover stands in for %q, too", got)
	}

	// The pair's frames now leave through the VF: its counter increases, the tap's does not.
	before := counts(ctx, t, h, "vm1")
	must(t, h.SetRate(ctx, "vm1", 50, 200))
	must(t, lab.Eventually(ctx, 30*time.Second, "100 packets on the VF", func() (bool, error) {
		return counts(ctx, t, h, "vm1").vf >= before.vf+100, nil
	}))
	must(t, h.SetRate(ctx, "vm1", 0, 64))
	if after := counts(ctx, t, h, "vm1"); after.tap > before.tap+10 {
		t.Errorf("tap carried %d packets while the VF was up", after.tap-before.tap)
	}

	began = time.Now()
	must(t, h.DetachVF(ctx, "vm1"))
	t.Logf("detach call: %v", time.Since(began))
	must(t, lab.Eventually(ctx, 30*time.Second, "the VF's removal", func() (bool, error) {
		has, err := h.HasVF(ctx, "vm1")
		return !has, err
	}))
	t.Logf("removed: %v", time.Since(began))

	// Without the VF the same traffic is on the tap.
	before = counts(ctx, t, h, "vm1")
	must(t, h.SetRate(ctx, "vm1", 50, 200))
	must(t, lab.Eventually(ctx, 30*time.Second, "100 packets on the tap", func() (bool, error) {
		return counts(ctx, t, h, "vm1").tap >= before.tap+100, nil
	}))
}

// Traffic between two places is counted packet by packet.
func TestFlow(t *testing.T) {
	t.Parallel()
	h := lab.ForTest(t, "vm1", "vm2")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, traffic := range []lab.Traffic{
		{From: "vm1", To: "ext", PPS: 50, Size: 100},
		{From: "ext", To: "vm1", PPS: 50, Size: 100},
		{From: "host", To: "vm2", PPS: 50, Size: 100},
		{From: "vm1", To: "vm2", PPS: 50, Size: 100},
	} {
		start := h.StartFlow
		if traffic.From == "host" {
			start = h.StartPing
		}
		flow, err := start(ctx, traffic)
		must(t, err)
		must(t, lab.Eventually(ctx, 30*time.Second, "100 packets", func() (bool, error) {
			n, err := flow.Sent(ctx)
			return n >= 100, err
		}))
		report, err := flow.Stop(ctx)
		must(t, err)
		t.Logf("%s to %s: %v", traffic.From, traffic.To, report)
		if report.Received < 100 || report.Lost > 0 || report.Duplicates > 0 {
			t.Errorf("%s to %s: %v, want no loss", traffic.From, traffic.To, report)
		}
	}
}

type count struct{ vf, tap uint64 }

func counts(ctx context.Context, t *testing.T, h *lab.Host, vm string) count {
	t.Helper()
	vfs, err := h.VFCounters(ctx, "pf0")
	must(t, err)
	// The host's end of the tap receives what a guest sends.
	tap, err := h.Counter(ctx, lab.Tap(vm), "rx_packets")
	must(t, err)
	return count{vf: vfs[1].TxPackets, tap: tap}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
