//go:build lab

package lab_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"sluice/lab"
)

// A guest with a bond of its own takes a VF in by itself, and lets it go.
func TestBond(t *testing.T) {
	h := lab.ForTest(t, "vm5")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	active := func() string {
		out, err := h.GuestExec(ctx, "vm5", "cat /sys/class/net/bond0/bonding/active_slave")
		must(t, err)
		return strings.TrimSpace(out)
	}
	if got := active(); got != "virtio0" {
		t.Fatalf("active slave is %q at first, want virtio0", got)
	}
	must(t, h.AttachVF(ctx, "vm5", "pf0", 5))
	must(t, lab.Eventually(ctx, 30*time.Second, "the VF as active slave", func() (bool, error) {
		vf, carrier, err := h.GuestVF(ctx, "vm5")
		return carrier && active() == vf, err
	}))
	ping(ctx, t, h, "vm5")
	must(t, h.DetachVF(ctx, "vm5"))
	must(t, lab.Eventually(ctx, 30*time.Second, "the virtio NIC as active slave", func() (bool, error) {
		has, err := h.HasVF(ctx, "vm5")
		return !has && active() == "virtio0", err
	}))
	// As long as the VF's filter stays, the PF would not see the guest's frames.
	_, err := h.Run(ctx, "ip link set pf0 vf 5 mac 00:00:00:00:00:00")
	must(t, err)
	ping(ctx, t, h, "vm5")
}

// ping checks that a guest and the outside host reach each other.
func ping(ctx context.Context, t *testing.T, h *lab.Host, vm string) {
	t.Helper()
	flow, err := h.StartPing(ctx, lab.Traffic{From: vm, To: "ext", PPS: 20, Size: 64})
	must(t, err)
	err = lab.Eventually(ctx, 20*time.Second, "ten answers", func() (bool, error) {
		n, err := flow.Received(ctx)
		return n >= 10, err
	})
	report, stopErr := flow.Stop(ctx)
	t.Logf("%s to ext: %v", vm, report)
	must(t, stopErr)
	must(t, err)
}

// A guest that ignores hot-plug keeps its VF until it listens again.
func TestIgnoreHotplug(t *testing.T) {
	h := lab.ForTest(t, "vm2")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	must(t, h.AttachVF(ctx, "vm2", "pf0", 2))
	must(t, lab.Eventually(ctx, 30*time.Second, "the VF in vm2", func() (bool, error) {
		vf, _, err := h.GuestVF(ctx, "vm2")
		return vf != "", err
	}))
	must(t, h.IgnoreHotplug(ctx, "vm2", true))
	_ = h.DetachVF(ctx, "vm2") // may say yes, may say timeout: neither means a thing
	for range 4 {
		has, err := h.HasVF(ctx, "vm2")
		must(t, err)
		if !has {
			t.Fatal("the VF left a guest that ignores hot-plug")
		}
		time.Sleep(time.Second)
	}
	must(t, h.IgnoreHotplug(ctx, "vm2", false))
	must(t, lab.Eventually(ctx, 30*time.Second, "the VF's removal", func() (bool, error) {
		has, err := h.HasVF(ctx, "vm2")
		return !has, err
	}))
}

// A stopped guest agent is no obstacle to the lab's own.
func TestStopGuestAgent(t *testing.T) {
	h := lab.ForTest(t, "vm1")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	ask := func() error {
		_, err := h.Run(ctx, `virsh -q qemu-agent-command vm1 '{"execute":"guest-ping"}' --timeout 2`)
		return err
	}
	must(t, ask())
	must(t, h.StopGuestAgent(ctx, "vm1", true))
	if ask() == nil {
		t.Error("a stopped agent answers")
	}
	_, err := h.GuestExec(ctx, "vm1", "true")
	must(t, err)
	must(t, h.StopGuestAgent(ctx, "vm1", false))
	must(t, lab.Eventually(ctx, 30*time.Second, "the agent's answer", func() (bool, error) {
		err := ask()
		return err == nil, err
	}))
}
