//go:build lab

package lab_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/lab"
)

// A guest with its own bond or team adopts a VF by itself, with the files of the package sluice-guest, and releases it.
func TestBondAndTeam(t *testing.T) {
	guests := map[string]string{
		"vm5": "cat /sys/class/net/bond0/bonding/active_slave",
		"vm6": "teamdctl team0 state item get runner.active_port",
	}
	t.Parallel()
	h := lab.ForTest(t, slices.Sorted(maps.Keys(guests))...)
	for vm, command := range guests {
		t.Run(vm, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			takesVF(ctx, t, h, vm, command)
		})
	}
}

func takesVF(ctx context.Context, t *testing.T, h *lab.Host, vm, command string) {
	t.Helper()
	active := func() string {
		out, err := h.GuestExec(ctx, vm, command)
		must(t, err)
		return strings.TrimSpace(out)
	}
	if got := active(); got != "virtio0" {
		t.Fatalf("%q is active at first, want virtio0", got)
	}
	must(t, h.AttachVF(ctx, vm, "pf0", 5))
	must(t, lab.Eventually(ctx, 30*time.Second, "the VF as what is active", func() (bool, error) {
		vf, carrier, err := h.GuestVF(ctx, vm)
		return carrier && active() == vf, err
	}))
	// All have one MAC: the VF refuses another, and outside nobody has to learn one.
	out, err := h.GuestExec(ctx, vm, "cat /sys/class/net/[!l]*/address | sort -u")
	must(t, err)
	if got := strings.TrimSpace(out); got != lab.MAC(vm) {
		t.Errorf("MACs of the guest are %q, want %s", got, lab.MAC(vm))
	}
	ping(ctx, t, h, vm)
	must(t, h.DetachVF(ctx, vm))
	must(t, lab.Eventually(ctx, 30*time.Second, "the virtio NIC as what is active", func() (bool, error) {
		has, err := h.HasVF(ctx, vm)
		return !has && active() == "virtio0", err
	}))
	// While the VF's filter remains, the PF would not receive the guest's frames.
	_, err = h.Run(ctx, "ip link set pf0 vf 5 mac 00:00:00:00:00:00")
	must(t, err)
	ping(ctx, t, h, vm)
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

// A guest that ignores hot-plug keeps its VF until it handles events again.
func TestIgnoreHotplug(t *testing.T) {
	t.Parallel()
	h := lab.ForTest(t, "vm2")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	must(t, h.AttachVF(ctx, "vm2", "pf0", 2))
	must(t, lab.Eventually(ctx, 30*time.Second, "the VF in vm2", func() (bool, error) {
		vf, _, err := h.GuestVF(ctx, "vm2")
		return vf != "", err
	}))
	must(t, h.IgnoreHotplug(ctx, "vm2", true))
	_ = h.DetachVF(ctx, "vm2") // success or timeout: neither is conclusive
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

// A stopped guest agent does not affect the lab's own.
func TestStopGuestAgent(t *testing.T) {
	t.Parallel()
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
