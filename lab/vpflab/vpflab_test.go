//go:build lab

package vpflab_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/lab"
	"sluice/lab/vpflab"
)

// With a handwritten virtual PF, VFs appear in the guest with a driver when the guest enables them, and frames pass between a VF,
// another VM and the outside machine.
func TestSmoke(t *testing.T) {
	t.Parallel()
	h := vpflab.ForTest(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	node := vpflab.Node
	node.Devices, node.Tail = handmade(2)
	must(t, h.Define(ctx, node))
	must(t, h.Define(ctx, vpflab.Peer))
	must(t, h.Boot(ctx, "node"))
	must(t, h.Boot(ctx, "peer"))

	pf := pfOf(ctx, t, h, "node")
	if got := guest(ctx, t, h, "node", "cat /sys/bus/pci/devices/"+pf+"/sriov_totalvfs"); got != "2" {
		t.Fatalf("the PF has %s VFs, want 2", got)
	}
	guest(ctx, t, h, "node", "echo 2 >/sys/bus/pci/devices/"+pf+"/sriov_numvfs")
	must(t, lab.Eventually(ctx, time.Minute, "a network device for each VF", func() (bool, error) {
		out, err := h.GuestExec(ctx, "node", "ls -d /sys/bus/pci/devices/"+pf+"/virtfn*/virtio*/net/*")
		return strings.Count(out, "\n") == 2, err
	}))
	vf := guest(ctx, t, h, "node", "ls /sys/bus/pci/devices/"+pf+"/virtfn0/virtio*/net")
	guest(ctx, t, h, "node", "ip netns add pod && ip link set "+vf+" netns pod && ip -n pod link set "+vf+
		" up && ip -n pod addr add 10.9.0.51/24 dev "+vf)
	for _, to := range []string{"10.9.0.12", "10.9.0.100", "10.9.0.1"} {
		guest(ctx, t, h, "node", "ip netns exec pod ping -c 3 -W 10 "+to)
	}
	guest(ctx, t, h, "node", "ip netns del pod")
	must(t, lab.Eventually(ctx, time.Minute, "no VFs", func() (bool, error) {
		out, err := h.GuestExec(ctx, "node", "echo 0 >/sys/bus/pci/devices/"+pf+"/sriov_numvfs; ls /sys/bus/pci/devices/"+pf)
		return !strings.Contains(out, "virtfn"), err
	}))
}

// handmade returns a virtual PF in libvirt's XML.
func handmade(vfs int) (devices, tail string) {
	nic := func(n, function int, alias, more string) {
		devices += fmt.Sprintf(`<interface type='bridge'><mac address='52:54:00:77:00:%02d'/><source bridge='br0'/><target dev='vpf%d'/>
<model type='virtio'/><alias name='%s'/><rom enabled='no'/><address type='pci' bus='1' slot='0' function='%d' %s/></interface>`, n, n,
			alias, function, more)
	}
	devices = "<controller type='pci' index='1' model='pcie-root-port'/>"
	for i := range vfs {
		alias := fmt.Sprintf("ua-vf%d", i)
		nic(i+1, i+1, alias, "")
		tail += "<qemu:device alias='" + alias + "'><qemu:frontend><qemu:property name='sriov-pf' type='string' " +
			"value='ua-pf'/></qemu:frontend></qemu:device>"
	}
	nic(0, 0, "ua-pf", "multifunction='on'")
	return devices, "<qemu:override>" + tail + "</qemu:override>"
}

// pfOf returns the PCI address of the guest's only virtual PF.
func pfOf(ctx context.Context, t testing.TB, h *vpflab.Host, vm string) string {
	t.Helper()
	return guest(ctx, t, h, vm, "basename $(dirname $(ls /sys/bus/pci/devices/*/sriov_totalvfs))")
}

func guest(ctx context.Context, t testing.TB, h *vpflab.Host, vm, script string) string {
	t.Helper()
	out, err := h.GuestExec(ctx, vm, script)
	must(t, err)
	return strings.TrimSpace(out)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
