//go:build lab

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
	"sluice/lab"
)

// oneVF makes two guests compete for the only VF; short deadlines keep the test short.
const oneVF = `mode: enforce
policy: activity
interval: 3s
pfs:
  - {name: pf0, vfs: 0}
moves: {retries: 1, plug_timeout: 15s, unplug_timeout: 10s, backoff: 5s, backoff_max: 10s}
`

// faultRig makes vm1 and vm2 compete for one VF.
type faultRig struct{ *rig }

// favour makes the VM the busiest, so that it gets the VF.
func (r faultRig) favour(vm string) {
	r.t.Helper()
	other := map[string]string{"vm1": "vm2", "vm2": "vm1"}[vm]
	r.rate(vm, 40)
	r.rate(other, 2)
}

// settle favours the VM and waits until it has the VF and nothing moves.
func (r faultRig) settle(vm string) {
	r.t.Helper()
	r.favour(vm)
	r.holding(90*time.Second, vm)
	r.idle(60 * time.Second)
}

// sound checks what must be true after every fault: both guests are reachable, nothing leaked.
func (r faultRig) sound() {
	r.t.Helper()
	r.reach("vm1")
	r.reach("vm2")
	r.clean()
}

// underWay waits until a plug or an unplug is in progress. It polls often: a move may take less than a second.
func (r faultRig) underWay() {
	r.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for time.Now().Before(deadline) {
		p, err := r.client.Plan(r.ctx)
		for _, m := range p.Active {
			if err == nil && m.Kind != api.MoveRepair {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.t.Fatalf("no move under way within a minute\n%s", r.state())
}

// liar gives the answers that libvirt needs to accept an agent, and false answers to everything else.
const liar = `while read -r l <&3; do
	id=$(echo "$l" | sed -n 's/.*"id": *\([0-9]*\).*/\1/p')
	case $l in
	*guest-sync*) echo "{\"return\":$id}" ;;
	*) echo '{"return":[{"name":"eth0","hardware-address":"52:54:00:00:01:02","statistics":{` +
	`"rx-bytes":18446744073709551615,"rx-packets":18446744073709551615,` +
	`"tx-bytes":-1,"tx-packets":1e300,"rx-errs":0,"rx-dropped":0,"tx-errs":0,"tx-dropped":0}},{"name":"eth0"},7,null]}' ;;
	esac >&3
done`

// flood keeps sending, and never answers what it was asked.
const flood = `while echo '{"return":[{"name":"eth0","hardware-address":"52:54:00:00:01:02"}]}'; do :; done >&3`

// suspects waits until the daemon reports that it does not trust a VM's agent.
func (r faultRig) suspects(vm string) error {
	vms, err := r.client.VMs(r.ctx)
	if err != nil {
		return err
	}
	for _, v := range vms {
		if v.Name == vm && v.Known && v.Proof != "guest" {
			return fmt.Errorf("its load of %g packets/s, by %v, is taken as proved", v.PPS, v.Sources)
		}
	}
	return nil
}

func (r faultRig) kill() {
	r.run("pkill -9 -x sluiced")
	r.start()
}

// says waits until explain names the fault.
func (r faultRig) says(vm, text string) {
	r.t.Helper()
	r.eventually(60*time.Second, fmt.Sprintf("explain %s says %q", vm, text), func() error {
		e, err := r.client.Explain(r.ctx, vm)
		if err != nil {
			return err
		}
		all := e.Sentence + " " + e.Veto
		if e.LastMove != nil {
			all += " " + e.LastMove.Error
		}
		if !strings.Contains(all, text) {
			return fmt.Errorf("it says %q", all)
		}
		return nil
	})
	r.t.Logf("explain %s: %s", vm, r.explain(vm))
}

// strange attaches VF 0 to vm2 as another program would, or detaches it: as a plain device, not as a pair.
func (r faultRig) strange(command, what string) {
	r.t.Helper()
	address, err := r.VFAddress(r.ctx, "pf0", 0)
	r.must(err)
	xml, err := lab.HostdevXML(address, "ua-strange", "")
	r.must(err)
	r.must(r.WriteFile(r.ctx, "/run/lab/strange.xml", xml))
	r.run("virsh -q %s vm2 %s --live", command, what)
}

// newFaultRig has one VF, which vm1 holds.
func newFaultRig(t *testing.T) faultRig {
	t.Helper()
	r := faultRig{newRig(t, oneVF, "vm1", "vm2")}
	r.settle("vm1")
	return r
}

// step lets one thing go wrong, and checks that all is well again.
func (r faultRig) step(name string, f func()) {
	r.t.Helper()
	begin := time.Now()
	f()
	r.sound()
	r.t.Logf("%s: sound again after %s", name, time.Since(begin).Round(time.Second))
}

// TestFaultsOfPrograms: the daemon, libvirtd and guest agents die, hang and lie.
func TestFaultsOfPrograms(t *testing.T) {
	r := newFaultRig(t)
	for i := range 2 { // TestKillDuringMoves has six more, of moves without a rival
		r.step("kill -9 while the VF moves", func() {
			vm := []string{"vm2", "vm1"}[i%2] // the one that does not hold the VF
			r.settle(map[string]string{"vm1": "vm2", "vm2": "vm1"}[vm])
			r.favour(vm)
			r.underWay()
			time.Sleep(time.Duration(i) * 1200 * time.Millisecond) // when the one begins to give the VF up, and about when the other gets it
			r.kill()
			r.settle(vm)
		})
	}
	r.step("libvirtd restarts while the VF moves", func() {
		r.favour("vm2")
		r.underWay()
		r.run("pkill -9 -x libvirtd; sleep 1; rm -f /run/libvirtd.pid; libvirtd -d")
		r.settle("vm2")
	})
	r.step("the agent hangs", func() {
		r.must(r.StopGuestAgent(r.ctx, "vm2", true))
		r.settle("vm1") // vm2 has the VF and nobody measures its traffic: its value decays
		r.must(r.StopGuestAgent(r.ctx, "vm2", false))
		r.settle("vm2")
	})
	r.step("the agent lies", func() {
		r.must(r.ReplaceGuestAgent(r.ctx, "vm2", liar))
		r.settle("vm1") // while it has no VF, the host measures its load, whatever the agent reports
		r.rate("vm2", 40)
		r.rate("vm1", 2)
		r.holding(90*time.Second, "vm2")
		r.eventually(30*time.Second, "vm2's load is not taken from a liar", func() error {
			vms, err := r.client.VMs(r.ctx)
			if err != nil {
				return err
			}
			for _, v := range vms {
				if v.Name == "vm2" && v.PPS > 1000 {
					t.Fatalf("vm2 has %g packets/s by its own word", v.PPS)
				}
			}
			return r.suspects("vm2")
		})
		r.must(r.ReplaceGuestAgent(r.ctx, "vm2", ""))
		r.settle("vm1")
	})
	r.step("the agent floods", func() {
		r.must(r.ReplaceGuestAgent(r.ctx, "vm2", flood))
		r.settle("vm2")
		r.settle("vm1")
		r.must(r.ReplaceGuestAgent(r.ctx, "vm2", ""))
		r.settle("vm2")
	})
}

// TestFaultsOfGuestsAndDevices: guests, the NIC and other administrators do what is unforeseen.
func TestFaultsOfGuestsAndDevices(t *testing.T) {
	r := newFaultRig(t)
	r.settle("vm2")
	r.step("the guest ignores the unplug", func() {
		r.must(r.IgnoreHotplug(r.ctx, "vm2", true))
		r.favour("vm1")
		r.says("vm2", "unplug")
		r.reach("vm2") // still on the VF
		r.must(r.IgnoreHotplug(r.ctx, "vm2", false))
		r.settle("vm1")
	})
	r.step("a guest without a driver", func() {
		_, err := r.GuestExec(r.ctx, "vm2", "rmmod igbvf")
		r.must(err)
		r.favour("vm2")
		r.says("vm2", "driver")
		r.reach("vm2")
		_, err = r.GuestExec(r.ctx, "vm2", "insmod /modules/igbvf.ko")
		r.must(err)
		r.settle("vm2")
	})
	r.step("the domain is paused while it holds the VF", func() {
		r.must(r.Suspend(r.ctx, "vm2"))
		r.rate("vm1", 40)
		r.says("vm2", "paused")
		r.must(r.Resume(r.ctx, "vm2"))
		r.settle("vm1")
	})
	r.step("the guest reboots while it holds the VF", func() {
		r.settle("vm2")
		r.must(r.Reboot(r.ctx, "vm2"))
		delete(r.loads, "vm2") // its sender ended with the guest
		r.reach("vm2")
		r.settle("vm1")
		r.settle("vm2")
		r.settle("vm1")
	})
	r.step("the PF loses its link", func() {
		r.run("ip link set pf0 down")
		r.says("vm1", "down")
		r.holding(60 * time.Second) // nobody: a guest whose VF has no carrier would receive nothing
		r.idle(60 * time.Second)
		r.run("ip link set pf0 up")
		r.settle("vm1")
	})
	r.step("somebody else attaches the VF", func() {
		_, err := r.client.Do(r.ctx, api.VerbDrain, api.Request{})
		r.must(err)
		r.holding(60 * time.Second)
		r.idle(60 * time.Second)
		r.strange("attach-device", "/run/lab/strange.xml")
		_, err = r.client.Do(r.ctx, api.VerbUndrain, api.Request{})
		r.must(err)
		r.favour("vm1")
		r.says("vm1", "no usable VF")
		vfs, err := r.client.VFs(r.ctx)
		r.must(err)
		if vfs[0].Owner != string(model.OwnerForeign) {
			t.Errorf("VF %s is in vm2 by somebody else's doing, but counts as %s", vfs[0].Name, vfs[0].Owner)
		}
		r.strange("detach-device-alias", "ua-strange")
		r.settle("vm1")
	})
	r.step("sriov_numvfs is changed by somebody else", func() {
		_, err := r.client.Do(r.ctx, api.VerbDrain, api.Request{})
		r.must(err)
		r.holding(60 * time.Second)
		r.run("echo 0 > /sys/class/net/pf0/device/sriov_numvfs")
		r.run("echo 7 > /sys/class/net/pf0/device/sriov_numvfs")
		_, err = r.client.Do(r.ctx, api.VerbUndrain, api.Request{})
		r.must(err)
		r.settle("vm2")
	})
	t.Run("domain destroyed while it holds the VF", func(*testing.T) {
		r.run("virsh destroy vm2")
		r.eventually(60*time.Second, "vm1 gets the VF of the VM that is gone", func() error {
			h, err := r.holders()
			if err == nil && (len(h) != 1 || h[0] != "vm1") {
				err = fmt.Errorf("holders %v", h)
			}
			return err
		})
		r.idle(60 * time.Second)
		r.reach("vm1")
		r.clean()
	})
}
