//go:build lab

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/api/v1"
)

// One VM with three virtual PFs: one with more VFs than a slot has functions, and one that is an Intel 82576.
func TestModels(t *testing.T) {
	r := newRig(t, "")
	outside, err := r.Listen(r.ctx, "ext", "wire0")
	r.must(err)
	r.host("virsh -q destroy node")
	for _, options := range []string{"--name many --vfs 10 --ari", "--name card --vfs 3 --model igb"} {
		r.eventually(time.Minute, "another virtual PF, as soon as the daemon has seen the VM's end", func() error {
			_, err := r.Run(r.ctx, "sluice vpf define node --network br0 --no-channel "+options)
			return err
		})
	}
	r.must(r.Boot(r.ctx, "node"))
	r.eventually(2*time.Minute, "QEMU has made all of them", func() error { return r.complete("many", "card") })
	found, err := r.client.Doctor(r.ctx)
	r.must(err)
	for _, p := range found.Problems {
		if strings.Contains(p.Text, "vpf") || strings.Contains(p.Text, "virtual") {
			t.Errorf("doctor: %+v", p)
		}
	}

	// Links of those two are always up, so each VF works as soon as the guest has a driver for it.
	many := r.pfNamed("many")
	r.node("echo 10 >/sys/bus/pci/devices/%s/sriov_numvfs", many)
	var dev string
	r.eventually(time.Minute, "a network device for the tenth VF", func() (err error) {
		dev, err = r.GuestExec(r.ctx, "node", "ls /sys/bus/pci/devices/"+many+"/virtfn9/virtio*/net")
		return err
	})
	r.give("m", strings.TrimSpace(dev), "10.9.0.71")
	r.reaches("m", "10.9.0.100")
	r.passes("the tenth VF's own MAC", outside, "m", "nic0", "")
	r.blocked("a forged MAC from the tenth VF", outside, "m", "nic0", "--src 02:00:00:00:66:66")

	card := r.pfNamed("card")
	pf := r.node("ls /sys/bus/pci/devices/%s/net", card)
	r.node("ip link set %s up; echo 3 >/sys/bus/pci/devices/%s/sriov_numvfs", pf, card)
	r.must(r.GuestStart(r.ctx, "node", "sluice-guest", "sluice-guest run"))
	r.node("sluice-guest set-macs")
	mac := r.function("card", 1).MAC
	r.eventually(time.Minute, "VF 1 of the igb with its MAC", func() (err error) {
		dev, err = r.GuestExec(r.ctx, "node", "basename $(dirname $(grep -l "+mac+" /sys/bus/pci/devices/"+card+"/virtfn1/net/*/address))")
		return err
	})
	r.give("i", strings.TrimSpace(dev), "10.9.0.72")
	r.eventually(time.Minute, "the igb's VF reaches the machine outside", func() error { // its carrier comes a moment later
		_, err := r.GuestExec(r.ctx, "node", "ip netns exec i ping -c 1 -W 5 10.9.0.100")
		return err
	})
	r.host("sluice vpf set node card --vf 1 --vlan 0 --limit 100pps")
	r.eventually(time.Minute, "its policy stands", func() error {
		if f := r.function("card", 1); !f.Stands || f.Policy.Limit == "" {
			return fmt.Errorf("%+v", f)
		}
		return nil
	})
	r.passes("the MAC of the igb's VF", outside, "i", "nic0", "")
	r.eventually(time.Minute, "frames above the limit of the igb's VF are dropped", func() error {
		r.send("i", "nic0", "--count 1000")
		if d := r.function("card", 1).Drops; d.Rate == 0 {
			return fmt.Errorf("%+v", d)
		}
		return nil
	})
}

// give moves a device of the guest to a network namespace of its own, as nic0.
func (r *rig) give(ns, dev, address string) {
	r.t.Helper()
	r.node("ip netns add %[1]s && ip link set %[2]s netns %[1]s name nic0 && ip -n %[1]s link set nic0 up && "+
		"ip -n %[1]s addr add %[3]s/24 dev nic0", ns, dev, address)
}

// complete returns which of these virtual PFs does not run, or has a function without a carrier.
func (r *rig) complete(names ...string) error {
	list, err := r.client.VirtualPFs(r.ctx)
	if err != nil {
		return err
	}
	found := 0
	for i := range list {
		p := &list[i]
		if !slices.Contains(names, p.Name) {
			continue
		}
		found++
		if !p.Running || len(p.Problems) > 0 {
			return fmt.Errorf("%s: running %v: %s %v", p.Name, p.Running, p.Why, p.Problems)
		}
		for _, f := range p.Functions {
			if f.Link != "up" || !f.Stands {
				return fmt.Errorf("%s, function %d: link %s: %s", p.Name, f.VF, f.Link, f.Why)
			}
		}
	}
	if found != len(names) {
		return fmt.Errorf("%d of %v", found, names)
	}
	return nil
}

// function returns the daemon's status of a VF of one of node's virtual PFs.
func (r *rig) function(name string, vf int) (f api.VirtualFunction) {
	r.t.Helper()
	list, err := r.client.VirtualPFs(r.ctx)
	r.must(err)
	for i := range list {
		if list[i].Name == name {
			return list[i].Functions[vf+1]
		}
	}
	r.t.Fatalf("there is no virtual PF %s", name)
	return f
}

// pfNamed returns the PCI address in the guest of one of node's virtual PFs, found by its MAC.
func (r *rig) pfNamed(name string) string {
	r.t.Helper()
	list, err := r.client.VirtualPFs(r.ctx)
	r.must(err)
	for i := range list {
		if list[i].Name == name {
			return r.node(`for n in /sys/class/net/*; do if [ "$(cat $n/address)" = %s ]; then d=$(readlink -f $n/device)
				case $d in */virtio*) d=${d%%/*};; esac; echo ${d##*/}; exit; fi; done; exit 1`, list[i].MAC)
		}
	}
	r.t.Fatalf("there is no virtual PF %s", name)
	return ""
}
