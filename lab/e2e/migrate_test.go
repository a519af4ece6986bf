//go:build lab

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/lab"
)

// twoHosts is the lab's host, called a, and a second host b that consists of its other PF: see testdata/second-host. vm1 migrates
// between them. The rig's client queries a's daemon.
type twoHosts struct {
	*rig
	vm string
}

const migrating = `mode: enforce
policy: activity
interval: 5s
guest_agent: {every: 1s, timeout: 1s}
pfs:
  - {name: %s, vfs: 0-1}
moves: {plug_timeout: 60s, unplug_timeout: 60s}
`

// newTwoHosts starts a daemon on each host, with a config of which %s is the PF.
func newTwoHosts(t *testing.T, config string) *twoHosts {
	t.Helper()
	r := &twoHosts{rig: newRig(t, fmt.Sprintf(config, "pf0"), "vm1"), vm: "vm1"}
	r.must(r.Put(r.ctx, "testdata/second-host", "/root/second-host"))
	r.must(r.Put(r.ctx, "../../packaging/libvirt/qemu-hook", "/etc/libvirt/hooks/qemu.d/sluice"))
	r.run("ln -s /usr/local/bin/sluice /usr/bin/sluice; kill -HUP $(pgrep -x libvirtd)")
	r.run("bash /root/second-host")
	r.must(r.WriteFile(r.ctx, "/run/b/etc/sluice.yaml", fmt.Sprintf(config, "pf1")))
	p, err := r.Start(r.ctx, "exec on-b sluiced --config /etc/libvirt/sluice.yaml")
	r.must(err)
	r.eventually(time.Minute, "b's daemon has looked at its host", func() error {
		if !p.Running() {
			out, _ := p.Output()
			t.Fatalf("b's daemon ended: %s", out)
		}
		_, err := r.Run(r.ctx, "on-b sluice vms")
		return err
	})
	return r
}

// on returns a prefix for commands that run on a host.
func on(host string) string {
	if host == "b" {
		return "on-b "
	}
	return ""
}

// holds waits until the VM uses a VF on a host, or runs there without one, and no move is in progress; then there may be no leftovers
// on either host.
func (r *twoHosts) holds(host string, vf bool) {
	r.t.Helper()
	r.eventually(2*time.Minute, fmt.Sprintf("%s is on %s, VF %t", r.vm, host, vf), func() error {
		out, err := r.Run(r.ctx, on(host)+"sluice vms -o json")
		if err != nil {
			return err
		}
		var vms []api.VM
		if err := json.Unmarshal([]byte(out), &vms); err != nil {
			return err
		}
		for _, v := range vms {
			if v.Name == r.vm && v.State == "running" && (v.VF != "") == vf && v.UnderWay == "" {
				return nil
			}
		}
		return errNotYet
	})
}

// sound waits until neither host has leftovers, and the VM is reachable from both and from outside.
func (r *twoHosts) sound() {
	r.t.Helper()
	for _, host := range []string{"a", "b"} {
		r.eventually(time.Minute, "fsck finds nothing on "+host, func() error {
			out, err := r.Run(r.ctx, on(host)+"sluice fsck")
			if err == nil && !strings.Contains(out, "No leftover or wrong settings") {
				err = fmt.Errorf("%s", out)
			}
			return err
		})
		r.eventually(time.Minute, r.vm+" answers "+host, func() error {
			_, err := r.Run(r.ctx, on(host)+"ping -c 1 -W 2 "+lab.Address(r.vm))
			return err
		})
	}
	r.reach(r.vm)
}

// migrate returns the command that migrates the VM to a host. The hosts share one kernel, which does not allow two guests with the same
// CID.
func (r *twoHosts) migrate(to, flags string) string {
	from, address, cid := "qemu:///system", "10.99.0.2", "s/address='101'/address='111'/"
	uri := "$(cat /run/b/uri)"
	if to == "a" {
		from, uri = uri, "qemu+unix:///system?socket=/run/libvirt/libvirt-sock"
		address, cid = "10.99.0.1", "s/address='111'/address='101'/"
	}
	return fmt.Sprintf(`virsh -q -c "%[1]s" dumpxml --migratable %[2]s | sed "/<cid/%[3]s" >/run/lab/migrate.xml && `+
		`virsh -q -c "%[1]s" migrate --live %[6]s %[2]s "%[4]s" --migrateuri tcp://%[5]s --xml /run/lab/migrate.xml`,
		from, r.vm, cid, uri, address, flags)
}

// measured calls do while the outside host sends the VM 20 requests per second, and logs what was lost.
func (r *twoHosts) measured(what string, do func()) lab.Report {
	r.t.Helper()
	flow, err := r.StartPing(r.ctx, lab.Traffic{From: "ext", To: r.vm, PPS: 20, Size: 64, Gap: 200 * time.Millisecond})
	r.must(err)
	begin := time.Now()
	do()
	took := time.Since(begin)
	report, err := flow.Stop(r.ctx)
	r.must(err)
	r.t.Logf("%s in %v: %v", what, took.Round(100*time.Millisecond), report)
	return report
}

// refused checks that a command fails, for a reason that libvirt passes on.
func (r *twoHosts) refused(command, want string) {
	r.t.Helper()
	if out, err := r.Run(r.ctx, command); err == nil || !strings.Contains(err.Error(), want) {
		r.t.Fatalf("not refused because of %q: %s, %v", want, out, err)
	}
}

// libvirt migrates a VM with a VF: QEMU has the guest release the VF, its memory moves, and it gets a VF again on the target.
func TestMigrate(t *testing.T) {
	r := newTwoHosts(t, migrating)
	r.holds("a", true)
	r.measured("cancelled", func() {
		p, err := r.Start(r.ctx, r.migrate("b", "--bandwidth 1"))
		r.must(err)
		r.eventually(time.Minute, "the guest has given up its VF, and a leads to virtio", func() error {
			out, err := r.Run(r.ctx, "bridge fdb show br br0")
			if err == nil && !strings.Contains(out, lab.MAC(r.vm)+" dev "+lab.Tap(r.vm)+" ") {
				err = errNotYet
			}
			return err
		})
		for _, host := range []string{"a", "b"} { // also where a VF is reserved for it
			r.eventually(30*time.Second, host+" reaches the guest while its memory moves", func() error {
				_, err := r.Run(r.ctx, on(host)+"ping -c 1 -W 2 "+lab.Address(r.vm))
				return err
			})
		}
		if !p.Running() {
			out, _ := p.Output()
			r.t.Fatalf("the migration has ended by itself: %s", out)
		}
		r.run("virsh -q domjobabort %s", r.vm)
		r.eventually(time.Minute, "the migration ends", func() error {
			if p.Running() {
				return errNotYet
			}
			return nil
		})
		r.holds("a", true)
	})
	r.sound()
	r.measured("a to b, with a VF on both", func() {
		r.run("%s", r.migrate("b", ""))
		r.holds("b", true)
	})
	r.sound()
	if n, err := r.holders(); err != nil || len(n) != 0 {
		t.Errorf("a lists %v as holders, %v", n, err)
	}

	r.run("sluice drain --wait 1m")
	r.refused(r.migrate("a", ""), "sluice release vm1 --for 10m --wait 1m")
	r.holds("b", true)
	r.sound()

	// Without a VF, any host accepts it, even one without Sluice and its hook.
	r.run("rm /etc/libvirt/hooks/qemu.d/sluice")
	r.must(r.proc.Stop(r.ctx))
	r.measured("released, b to a without Sluice", func() {
		r.run("on-b sluice release %s --for 10m --wait 1m", r.vm)
		r.run("%s", r.migrate("a", ""))
	})
	r.reach(r.vm)
	r.start()
	r.run("sluice drain --undo")
	r.holds("a", true)
	r.sound()
}

// A guest without a VF can be saved, and gets one again. libvirt 11.3 passes the saved file itself to QEMU, which QEMU 11.1 rejects;
// when bypassing the page cache, it passes a pipe.
func TestSave(t *testing.T) {
	r := &twoHosts{rig: newRig(t, fmt.Sprintf(migrating, "pf0"), "vm1"), vm: "vm1"}
	r.holds("a", true)
	for save, restore := range map[string]string{
		"virsh -q managedsave vm1":            "virsh -q start --bypass-cache vm1",
		"virsh -q save vm1 /var/tmp/vm1.save": "virsh -q restore --bypass-cache /var/tmp/vm1.save",
	} {
		r.run("sluice release vm1 --for 10m --wait 1m")
		r.run("timeout 100 %s", save)
		r.clean()
		r.run("timeout 100 %s", restore)
		r.holds("a", false)
		r.run("sluice unpin vm1")
		r.holds("a", true)
		r.reach("vm1")
	}
	r.clean()
}

// A guest that is saved with its VF hangs: libvirt has paused it, and QEMU waits for it to release the VF. It continues, with its VF,
// when the save is cancelled.
func TestSaveWithVF(t *testing.T) {
	r := &twoHosts{rig: newRig(t, fmt.Sprintf(migrating, "pf0"), "vm1"), vm: "vm1"}
	r.holds("a", true)
	p, err := r.Start(r.ctx, "virsh -q save vm1 /var/tmp/vm1.save")
	r.must(err)
	r.eventually(time.Minute, "the save has begun", func() error {
		out, err := r.Run(r.ctx, "virsh -q domjobinfo vm1")
		if err == nil && !strings.Contains(out, "Save") {
			err = errNotYet
		}
		return err
	})
	r.run("virsh -q domjobabort vm1")
	r.eventually(2*time.Minute, "the save ends", func() error {
		if p.Running() {
			return errNotYet
		}
		return nil
	})
	r.holds("a", true)
	r.reach("vm1")
	r.clean()
}
