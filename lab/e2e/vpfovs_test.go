//go:build lab

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/lab"
)

// vpfRig is a lab with Open vSwitch and vm1, which has a virtual PF on it. Its VFs 0 and 1 are in the network namespaces vf0 and vf1 of the
// guest, with the addresses 10.9.0.60 and 10.9.0.61 and, in VLAN 10, 10.10.0.60 and 10.10.0.61.
type vpfRig struct{ *rig }

func newVPFRig(t *testing.T) vpfRig {
	r := vpfRig{newRig(t, onlyByHand, "vm2")}
	r.toOVS("tap2")
	r.run("ip link add link ovs0 name vlan10 type vlan id 10 && ip addr add 10.10.0.1/24 dev vlan10 && ip link set vlan10 up")
	r.run("virsh -q destroy vm1")
	r.eventually(time.Minute, "a virtual PF for vm1", func() error {
		_, err := r.Run(r.ctx, "sluice vpf define vm1 --vfs 2 --network ovs0")
		return err // the daemon may not have seen that the VM is off
	})
	r.boot("vm1")
	r.inGuest(`pf=$(dirname $(ls /sys/bus/pci/devices/*/sriov_totalvfs)); echo 2 >$pf/sriov_numvfs
		for i in 0 1; do
			tries=0
			until dev=$(ls $pf/virtfn$i/virtio*/net) || [ $tries -gt 100 ]; do usleep 100000; tries=$((tries + 1)); done
			ip netns add vf$i && ip link set $dev netns vf$i name eth0
			ip -n vf$i addr add 10.9.0.6$i/24 dev eth0 && ip -n vf$i addr add 10.10.0.6$i/24 dev eth0 && ip -n vf$i link set eth0 up
		done`)
	r.fix()
	return r
}

// fix tells Open vSwitch where everybody is: the emulated NIC returns broadcasts, which would teach it that their senders are on the wire.
func (r vpfRig) fix() {
	r.t.Helper()
	for _, vlan := range []int{0, 10} {
		r.fixHost(vlan)
		for i := range 2 {
			r.fixMAC(r.vf(i).Tap, vlan, r.vf(i).MAC)
		}
	}
	r.fixMAC(lab.Tap("vm2"), 0, lab.MAC("vm2"))
}

func (r vpfRig) inGuest(format string, args ...any) string {
	r.t.Helper()
	out, err := r.GuestExec(r.ctx, "vm1", fmt.Sprintf(format, args...))
	r.must(err)
	return strings.TrimSpace(out)
}

func (r vpfRig) set(format string, args ...any) {
	r.t.Helper()
	r.run("sluice vpf set vm1 %s", fmt.Sprintf(format, args...))
}

// vf returns the state of a VF.
func (r vpfRig) vf(i int) (f api.VirtualFunction) {
	r.t.Helper()
	list, err := r.client.VirtualPFs(r.ctx)
	r.must(err)
	return list[0].Functions[i+1]
}

// reaches fails the test unless a VF gets answers from an address.
func (r vpfRig) reaches(vf int, address string) {
	r.t.Helper()
	r.eventually(30*time.Second, fmt.Sprintf("%s answers VF %d", address, vf), func() error {
		_, err := r.GuestExec(r.ctx, "vm1", fmt.Sprintf("ip netns exec vf%d ping -c 1 -W 3 %s", vf, address))
		return err
	})
}

// unreachable fails the test if a VF gets an answer from an address, or none from elsewhere right after that, unless that is "": a VF that
// sends nothing reaches nobody.
func (r vpfRig) unreachable(vf int, address, elsewhere string) {
	r.t.Helper()
	out := r.inGuest("ip -n vf%d neigh flush all; ip netns exec vf%[1]d ping -c 3 -W 3 %s || true", vf, address)
	if !strings.Contains(out, "100% packet loss") {
		r.t.Errorf("VF %d reaches %s: %s", vf, address, out)
	}
	if elsewhere != "" {
		r.inGuest("ip netns exec vf%d ping -c 3 -W 3 %s", vf, elsewhere)
	}
}

// policy checks what VFs may do: VF 0 is in no VLAN.
func (r vpfRig) policy() {
	r.t.Helper()
	for _, peer := range []string{"host", "ext", "vm2"} {
		r.reaches(0, lab.Address(peer))
	}
	dropped := r.vf(0).Drops.Spoof
	const forged = "02:00:00:00:66:66"
	own := r.vf(0).MAC
	r.inGuest("ip -n vf0 link set eth0 address %s", forged)
	r.unreachable(0, lab.Address("host"), "") // that it sends is seen by what is dropped
	if learned := r.run("ovs-appctl fdb/show ovs0"); strings.Contains(learned, forged) {
		r.t.Errorf("Open vSwitch learned a forged MAC:\n%s", learned)
	}
	r.inGuest("ip -n vf0 link set eth0 address %s", own)
	r.reaches(0, lab.Address("host"))
	r.eventually(30*time.Second, "the drops are counted", func() error {
		if now := r.vf(0).Drops.Spoof; now == dropped {
			return fmt.Errorf("%d as before", now)
		}
		return nil
	})
}

// TestVirtualPFOnOpenVSwitch: the policy of virtual VFs holds on a bridge of Open vSwitch, also after ovs-vswitchd was killed and has
// started again, and what somebody changes at their ports is undone or refused.
func TestVirtualPFOnOpenVSwitch(t *testing.T) {
	r := newVPFRig(t)
	r.unreachable(0, lab.Address("host"), "") // nobody has it
	r.set("--link up")
	r.policy()
	r.reaches(0, "10.9.0.61")

	r.set("--vf 1 --vlan 10")
	r.reaches(1, "10.10.0.1")
	r.unreachable(1, lab.Address("host"), "10.10.0.1")
	r.unreachable(0, "10.9.0.61", lab.Address("host"))
	r.unreachable(0, "10.10.0.1", lab.Address("host"))

	r.run("kill -9 $(cat /run/openvswitch/ovs-vswitchd.pid)")
	r.run("/usr/share/openvswitch/scripts/ovs-ctl --system-id=lab start >/dev/null 2>&1; ovs-vsctl --timeout=60 get interface %s ofport", r.vf(0).Tap)
	r.fix()
	r.policy()
	r.reaches(1, "10.10.0.1")
	r.unreachable(1, lab.Address("host"), "10.10.0.1")

	r.set("--vf 1 --vlan 0 --isolated")
	r.reaches(0, "10.9.0.61")
	r.set("--isolated")
	isolated := func() {
		t.Helper()
		r.fix() // Open vSwitch forgets the entries of a port that is reconfigured
		r.unreachable(0, "10.9.0.61", lab.Address("ext"))
		r.unreachable(1, "10.9.0.60", lab.Address("vm2"))
	}
	isolated()
	tap := r.vf(0).Tap
	r.run("ovs-vsctl --timeout=60 set port %s protected=false", tap)
	r.eventually(time.Minute, "it is isolated again", func() error {
		if got := r.run("ovs-vsctl --timeout=60 get port %s protected", tap); got != "true" {
			return fmt.Errorf("protected is %s", got)
		}
		return nil
	})
	isolated()

	r.run("ovs-vsctl --timeout=60 set port %s tag=7", tap)
	r.eventually(time.Minute, "VF 0 has no carrier", func() error {
		f := r.vf(0)
		if f.Link != "down" || len(f.Problems) == 0 || !strings.Contains(f.Problems[0].Text, "ovs-vsctl clear port "+tap) {
			return fmt.Errorf("%+v", f)
		}
		return nil
	})
	r.run("ovs-vsctl --timeout=60 clear port %s tag", tap)
	r.fix()
	r.reaches(0, lab.Address("ext"))
}
