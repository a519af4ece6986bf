//go:build lab

package e2e

import (
	"flag"
	"strings"
	"testing"

	"sluice/lab"
)

const (
	interfaceID = "7d0c2e52-6ad5-4f0b-9a35-5b9a2c2a1f01"
	tag         = "7"
)

// newTwoOVS is newTwoHosts with bridges of Open vSwitch. The VM's port there, and the addresses of both hosts and of the outside host, are
// in a VLAN.
func newTwoOVS(t *testing.T) *twoHosts {
	t.Helper()
	r := newTwoHosts(t, migrating)
	r.run("virsh -q destroy %[1]s && virsh -q dumpxml --inactive %[1]s | sed \"s|<source bridge='br0'/>|<source bridge='ovs0'/>"+
		"<virtualport type='openvswitch'><parameters interfaceid='%[2]s'/></virtualport><vlan><tag id='%[3]s'/></vlan>|\" "+
		">/run/lab/ovs.xml && virsh -q define /run/lab/ovs.xml", r.vm, interfaceID, tag)
	for host, pf := range pfOf {
		r.makeOVS(host, pf)
		r.run("%sbash -c %s", on(host), lab.Quote(inVLAN("ovs0", "")+"; ovs-appctl fdb/add ovs0 ovs0 "+tag+" $(cat /sys/class/net/ovs0/address)"))
	}
	r.run("%s", inVLAN("wire", "-n ext"))
	r.boot(r.vm)
	return r
}

// inVLAN returns commands that move the address of a network device into a VLAN on it.
func inVLAN(dev, netns string) string {
	return strings.NewReplacer("IP", "ip "+netns, "DEV", dev, "TAG", tag).Replace(`set -e
		address=$(IP -br -4 addr show DEV | awk '{print $3}')
		IP addr del $address dev DEV
		IP link add link DEV name vlanTAG type vlan id TAG
		IP addr add $address dev vlanTAG
		IP link set vlanTAG up`)
}

// pfOf are the PFs by host.
var pfOf = map[string]string{"a": "pf0", "b": "pf1"}

// only checks that a host has the VM's port, with its interfaceid and VLAN, and a VF for it in that VLAN, and that the other host has
// nothing of it.
func (r *twoHosts) only(host string) {
	r.t.Helper()
	tap, mac := lab.Tap(r.vm), lab.MAC(r.vm)
	port := "ovs-vsctl --timeout=60 get interface " + tap + " external_ids:iface-id -- get port " + tap + " tag | tr -d '\"'"
	if got := strings.Fields(r.run("%sbash -c %s", on(host), lab.Quote(port))); strings.Join(got, " ") != interfaceID+" "+tag {
		r.t.Errorf("%s: the VM's port has interfaceid and tag %v", host, got)
	}
	if vfs := r.run("%sip link show %s", on(host), pfOf[host]); !strings.Contains(vfs, mac+" brd ff:ff:ff:ff:ff:ff, vlan "+tag) {
		r.t.Errorf("%s: no VF with MAC %s in VLAN %s: %s", host, mac, tag, vfs)
	}
	other := map[string]string{"a": "b", "b": "a"}[host]
	for what, command := range map[string]string{
		"port":        "ovs-vsctl --timeout=60 list-ports ovs0 | grep -x " + tap,
		"fixed entry": "ovs-appctl fdb/show ovs0 | grep " + mac + ".*static",
		"pin":         "find /sys/fs/bpf | grep -e /" + tap + "_ -e _" + strings.ReplaceAll(mac, ":", ""),
		"VF":          "ip link show " + pfOf[other] + " | grep " + mac,
		"filter":      "bridge fdb show dev " + pfOf[other] + " | grep " + mac,
	} {
		if left := r.run("%sbash -c %s || true", on(other), lab.Quote(command)); left != "" {
			r.t.Errorf("%s: %s left of a VM that runs on %s: %s", other, what, host, left)
		}
	}
}

var migrateBack = flag.Bool("migrate-back", false, "let the VM of TestMigrateOpenVSwitch migrate back, too: 2 minutes more")

// A VM migrates between bridges of Open vSwitch: there with its VF and, in the long form, back after it was released.
func TestMigrateOpenVSwitch(t *testing.T) {
	r := newTwoOVS(t)
	r.holds("a", true)
	r.sound()
	r.only("a")
	r.measured("a to b, with a VF on both", func() {
		r.run("%s", r.migrate("b", ""))
		r.holds("b", true)
	})
	r.sound()
	r.only("b")
	if !*migrateBack {
		return
	}
	r.measured("released, b to a", func() {
		r.run("on-b sluice release %s --for 10m --wait 1m", r.vm)
		r.run("%s", r.migrate("a", ""))
		r.holds("a", true)
	})
	r.sound()
	r.only("a")
}
