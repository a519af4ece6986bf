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

// makeOVS makes a bridge ovs0 of Open vSwitch with its kernel datapath on a host, and moves its PF and its address there from br0. Open
// vSwitch gives a bridge the MAC of its NIC by itself if that is globally administered, as the lab's are not: frames from a VF to another
// MAC of the host would leave the NIC for the wire.
func (r *rig) makeOVS(host, pf string) {
	r.t.Helper()
	// The emulated NIC returns broadcasts to the PF that sent them, which would teach the bridge that their senders are beyond it.
	r.run("modprobe openvswitch; %sbash -c %s", on(host), lab.Quote(strings.ReplaceAll(`set -e;
		/usr/share/openvswitch/scripts/ovs-ctl --system-id=lab start >/dev/null 2>&1
		mac=$(cat /sys/class/net/PF/address)
		address=$(ip -br -4 addr show br0 | awk '{print $3}')
		ovs-vsctl --timeout=60 add-br ovs0 -- set bridge ovs0 other-config:hwaddr="$mac"
		ip addr del $address dev br0
		ip link set PF nomaster
		ovs-vsctl --timeout=60 add-port ovs0 PF
		ip link set ovs0 up
		ip addr add $address dev ovs0
		ovs-appctl fdb/add ovs0 ovs0 0 $mac`, "PF", pf)))
}

// toOVS moves pf0, the taps and the host's address from br0 to a bridge of Open vSwitch. The daemon runs meanwhile, and finds it by
// looking.
func (r *rig) toOVS(taps ...string) {
	r.t.Helper()
	r.makeOVS("a", "pf0")
	for _, tap := range taps {
		r.run("ip link set %s nomaster && ovs-vsctl --timeout=60 add-port ovs0 %[1]s", tap)
		r.fixMAC(tap, 0, lab.MAC("vm"+strings.TrimPrefix(tap, "tap")))
	}
	r.eventually(60*time.Second, "the daemon sees pf0 in Open vSwitch", func() error {
		s, err := r.client.Status(r.ctx)
		if err != nil {
			return err
		}
		for _, pf := range s.PFs {
			if pf.Name == "pf0" && pf.Uplink == "openvswitch" && pf.Network == "ovs0" {
				return nil
			}
		}
		return fmt.Errorf("PFs are %+v", s.PFs)
	})
}

// TestOpenVSwitch moves a VF in and out of a guest behind Open vSwitch under traffic from outside, in the long form also from another guest,
// and kills ovs-vswitchd while the guest is on its VF and another sends to it.
func TestOpenVSwitch(t *testing.T) {
	r := aloneRig(t, onlyByHand, "vm1", "vm2")
	t.Logf("%s", r.run("uname -r; ovs-vsctl --version | head -1"))
	r.toOVS("tap1", "tap2")
	for _, vm := range []string{"vm1", "vm2"} {
		r.reach(vm)
	}
	peers := []string{"ext"}
	if *allLoss {
		peers = append(peers, "vm2")
	}
	for _, peer := range peers {
		l := &lossTest{rig: r, vm: "vm1", peer: peer}
		l.startFlows()
		for range *cycles {
			l.move(api.VerbPin, "plug")
			l.move(api.VerbRelease, "unplug")
		}
		figures := l.stop()
		l.save(figures)
		l.judge(figures)
		r.reach("vm1")
		r.clean()
	}
	r.restartVSwitchd()
	r.clean()
}

// fixMAC keeps ovs0 from learning that a MAC is beyond its PF, until ovs-vswitchd restarts: see makeOVS.
func (r *rig) fixMAC(port string, vlan int, mac string) {
	r.t.Helper()
	r.run("ovs-appctl fdb/add ovs0 %s %d %s", port, vlan, mac)
}

// fixHost is fixMAC for the host's own address.
func (r *rig) fixHost(vlan int) {
	r.t.Helper()
	r.fixMAC("ovs0", vlan, "$(cat /sys/class/net/pf0/address)")
}

// restartVSwitchd kills ovs-vswitchd while a guest is on its VF and another sends to it, and starts it again: the guest is reached at its VF
// then.
func (r *rig) restartVSwitchd() {
	r.t.Helper()
	_, err := r.client.Do(r.ctx, api.VerbPin, api.Request{VM: "vm1"})
	r.must(err)
	r.holding(60*time.Second, "vm1")
	r.idle(30 * time.Second)
	r.reach("vm1")
	f, err := r.StartFlow(r.ctx, lab.Traffic{From: "vm2", To: "vm1", PPS: 50, Size: 64, Gap: 50 * time.Millisecond})
	r.must(err)
	r.run("kill -9 $(cat /run/openvswitch/ovs-vswitchd.pid)")
	killed := time.Now()
	r.run("/usr/share/openvswitch/scripts/ovs-ctl --system-id=lab start >/dev/null 2>&1; ovs-vsctl --timeout=60 get interface tap1 ofport")
	back := time.Since(killed)
	r.fixHost(0)
	r.fixMAC(lab.Tap("vm2"), 0, lab.MAC("vm2"))
	r.run("ip neigh flush to %s; ip netns exec ext ip neigh flush to %[1]s", lab.Address("vm1")) // both ask for its MAC again
	r.reach("vm1")
	rep, err := f.Stop(r.ctx)
	r.must(err)
	r.t.Logf("ovs-vswitchd killed and back after %s, VF in use: %s", back.Round(10*time.Millisecond), rep)
	if rep.Received < rep.Sent/2 {
		r.t.Errorf("most packets never came: %s", rep)
	}
	_, err = r.client.Do(r.ctx, api.VerbRelease, api.Request{VM: "vm1"})
	r.must(err)
	r.idle(60 * time.Second)
	r.reach("vm1")
}
