//go:build lab

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/api/v1"
	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/placementtest"
	"sluice/lab"
)

var fleetVF = flag.Bool("fleet-vf", false, "let the VM of TestFleet migrate with a VF, too: 2 minutes more")

// inFleet is a host that takes claims from the user whom publish runs as.
const inFleet = `mode: enforce
policy: none
guest_agent: {every: 1s, timeout: 1s}
api: {group: nogroup, claims: nobody}
pfs:
  - {name: %s, vfs: 0-1}
moves: {plug_timeout: 60s, unplug_timeout: 60s}
`

// What the VM claims, and what another has claimed at b, which has not come yet: in kbit/s.
const (
	claimed = 20_000
	absent  = 50_000
)

// claimedClass is the VM's class in the kernel's HTB tree, as tc shows it.
const claimedClass = "rate 20Mbit"

// fleetRig is two hosts that publish to a real Placement on this machine.
type fleetRig struct {
	*twoHosts
	placement *placementtest.Server
	uuid      string
	absent    string // the other VM's
	pfs       map[string]string
	begin     time.Time
}

// sluiceFleet runs on the first host.
const sluiceFleet = "sluice fleet --placement http://127.0.0.1:8778 "

// hostUUID is for two hosts that have one /etc/machine-id.
func hostUUID(host string) string { return "00000000-0000-4000-8000-00000000000" + host }

func newFleetRig(t *testing.T) *fleetRig {
	t.Helper()
	p := placementtest.Start(t)
	r := &fleetRig{
		twoHosts: newTwoHosts(t, inFleet), placement: p, absent: "0b0c4fa4-6d2c-4b0e-9a35-5b9a2c2a1f01", pfs: map[string]string{},
		begin: time.Now(),
	}
	args := append([]string{"-O", "forward", "-R", "127.0.0.1:8778:" + strings.TrimPrefix(p.URL, "http://")}, r.SSHArgs()...)
	if out, err := exec.CommandContext(r.ctx, "ssh", args...).CombinedOutput(); err != nil {
		t.Fatalf("make Placement reachable: %v: %s", err, out)
	}
	r.uuid = r.run("virsh domuuid %s", r.vm)
	for i, host := range []string{"a", "b"} {
		h, err := fleet.HostOf(hostUUID(host), host)
		r.must(err)
		r.pfs[host] = h.PF(r.run("%sethtool -i pf%d | sed -n 's/bus-info: //p'", on(host), i))
		// Not in b's network namespace: Placement is reached by the way that both share.
		enter := map[string]string{"b": "nsenter -t $(cat /run/b/run/libvirtd.pid) -m -u "}[host]
		_, err = r.Start(r.ctx, "exec "+enter+"setpriv --reuid nobody --regid nogroup --clear-groups "+sluiceFleet+
			"publish --every 10s --host-uuid "+hostUUID(host)+" --host-name "+host)
		r.must(err)
	}
	return r
}

// watching prints two or three times a second how many frames the tap has received from the guest, how many packets have passed its
// class, and the first again; "-": there is no tap, or no class.
const watching = `frames() { ip -s link show %[1]s 2>/dev/null | awk '/RX:/ {getline; print $2; f=1} END {if (!f) print "-"}'; }
while sleep 0.3; do
	before=$(frames)
	class=$(for d in $(ip -br link show type ifb | cut -d" " -f1); do tc -s class show dev $d; done |
		awk '/%[2]s/ {getline; print $4; f=1} END {if (!f) print "-"}')
	echo $EPOCHREALTIME $before $class $(frames)
done`

// watch starts watching on a host.
func (r *fleetRig) watch(host string) {
	r.t.Helper()
	script := lab.Quote(fmt.Sprintf(watching, lab.Tap(r.vm), claimedClass))
	_, err := r.Start(r.ctx, "exec "+on(host)+"bash -c "+script+" >>/root/watch-"+host)
	r.must(err)
}

// watched checks what was seen on a host: all frames that had come from the guest have passed its class. It says how long that was there
// before the first.
func (r *fleetRig) watched(host string) {
	r.t.Helper()
	var classSince, framesSince float64
	looks, class, frames := 0, -1, -1
	for line := range strings.Lines(r.run("cat /root/watch-%s; : >/root/watch-%[1]s", host)) {
		var at float64
		var before, passed, after string
		if n, _ := fmt.Sscan(line, &at, &before, &passed, &after); n < 4 {
			continue // half written
		}
		looks++
		had, came := class >= 0, frames > 0
		class, frames = count(passed), count(before)
		if after == "-" {
			frames = -1 // the tap has gone meanwhile
		}
		if frames > 0 && class < frames {
			r.t.Errorf("%s at %.1f: %s has sent %d frames, and %d have passed its class (-1: there is none)", host, at, r.vm, frames, class)
		}
		if class >= 0 && !had {
			classSince = at
		}
		if frames > 0 && !came {
			framesSince = at
		}
	}
	if looks == 0 {
		r.t.Errorf("%s: nobody looked", host)
	}
	r.t.Logf("%s: %d looks; the class came %.1f s before the first frame", host, looks, framesSince-classSince)
}

// count is a number, or -1 if there is none.
func count(s string) int {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	return -1
}

// step says how far the test is.
func (r *fleetRig) step(what string, args ...any) {
	r.t.Logf("%5.1f s: "+what, append([]any{time.Since(r.begin).Seconds()}, args...)...)
}

func (r *fleetRig) fleet(args string) string {
	r.t.Helper()
	return r.run("%s", sluiceFleet+args)
}

// ask returns the command that migrates the VM with its claims.
func (r *fleetRig) ask() string {
	return "migrate " + r.uuid + " --mac " + lab.MAC(r.vm)
}

// ledger checks that at each host exactly that is claimed, in kbit/s, of the VM's claim, of its migration's and of the other VM's, by
// Placement's own answer.
func (r *fleetRig) ledger(a, b map[string]int) {
	r.t.Helper()
	for host, want := range map[string]map[string]int{"a": a, "b": b} {
		url := r.placement.URL + "/resource_providers/" + r.pfs[host] + "/allocations"
		q, err := http.NewRequestWithContext(r.ctx, http.MethodGet, url, http.NoBody)
		r.must(err)
		q.Header.Set("X-Auth-Token", "admin")
		q.Header.Set("OpenStack-API-Version", "placement 1.39")
		answer, err := http.DefaultClient.Do(q)
		r.must(err)
		var body struct {
			Allocations map[string]struct {
				Resources map[string]int `json:"resources"`
			} `json:"allocations"`
		}
		err = json.NewDecoder(answer.Body).Decode(&body)
		answer.Body.Close()
		r.must(err)
		got := map[string]int{}
		for consumer, c := range body.Allocations {
			got[consumer] = c.Resources[fleet.ClassBits]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			r.t.Errorf("claimed at %s: %s", host, diff)
		}
	}
}

// consumer is that of the VM's claim.
func (r *fleetRig) consumer(vm string) string {
	r.t.Helper()
	id, err := fleet.Consumer(vm, lab.MAC(r.vm))
	r.must(err)
	return id
}

// promisedAt waits until the daemon of the host promises the VM what it claims, because it does.
func (r *fleetRig) promisedAt(host, path string) {
	r.t.Helper()
	r.eventually(time.Minute, fmt.Sprintf("%s promises on %s what %s claims", host, path, r.vm), func() error {
		out, err := r.Run(r.ctx, on(host)+"sluice bw -o json "+r.vm)
		if err != nil {
			return err
		}
		var b api.Bandwidth
		if err := json.Unmarshal([]byte(out), &b); err != nil {
			return err
		}
		for _, n := range b.NICs {
			held := path == "vf" || len(n.Enforced) > 0 && n.Enforced[0].By == "htb"
			if n.Promised.Bits == claimed*1e3 && n.Source == "claim" && n.Path == path && held {
				return nil
			}
		}
		return fmt.Errorf("%s", out)
	})
}

// A VM without an SLA of its own is placed, started where there is room, and migrates there and back. Wherever it runs, it has what it
// claims before its first frame; the ledger has it at both hosts meanwhile, and right after it at one. So it is too when Placement is
// killed at a migration's first write and at its last.
func TestFleet(t *testing.T) {
	r := newFleetRig(t)
	r.run("virsh -q destroy %s", r.vm)
	r.eventually(time.Minute, "both hosts are published", func() error {
		out, err := r.Run(r.ctx, sluiceFleet+"list -o json")
		if err != nil {
			return err
		}
		var list []fleet.Link
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			return err
		}
		if len(list) != 2 || list[0].Free == 0 || list[1].Free == 0 || list[0].Unenforced || list[1].Unenforced {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	r.step("published")
	vm, other := r.consumer(r.uuid), r.consumer(r.absent)
	ours, others := map[string]int{vm: claimed}, map[string]int{other: absent}
	both := map[string]int{vm: claimed, other: absent}
	r.fleet("place " + r.absent + " --mac " + lab.MAC(r.vm) + " --guarantee 50Mbit --host b")
	said := r.fleet("place " + r.uuid + " --mac " + lab.MAC(r.vm) + " --guarantee 20Mbit --network br0")
	if !strings.Contains(said, "of host a") {
		t.Fatal(said)
	}
	r.ledger(ours, others)
	r.step("placed")
	r.eventually(time.Minute, "a keeps room for it", func() error {
		c, err := r.client.Capacity(r.ctx)
		if err == nil && (len(c.Claims) != 1 || c.Claims[0].Refused != "") {
			err = errNotYet
		}
		return err
	})
	r.step("a keeps room")
	r.run("virsh -q start %s", r.vm)
	if n := r.run("until tc class show dev slb$(cat /sys/class/net/pf0/ifindex) | grep -q '%s'; do sleep 0.1; done; "+
		"cat /sys/class/net/%s/statistics/rx_packets", claimedClass, lab.Tap(r.vm)); n != "0" {
		t.Errorf("a: its class came after %s frames of the guest", n)
	}
	r.eventually(2*time.Minute, r.vm+" answers", func() error {
		_, err := r.Run(r.ctx, "ping -c 1 -W 2 "+lab.Address(r.vm))
		return err
	})
	r.step("started at a")
	r.promisedAt("a", "virtio")
	r.watch("a")
	r.watch("b")

	for _, to := range []string{"a", "b"} {
		r.must(r.WriteFile(r.ctx, "/root/to-"+to, r.migrate(to, "")))
	}
	run := r.ask() + " -- bash /root/to-{host}"
	r.measured("a to b", func() { r.step("%s", r.fleet(run)) })
	r.ledger(map[string]int{}, both)
	r.promisedAt("b", "virtio")
	r.watched("a")
	r.watched("b")

	// Killed with the answer to the first write on its way: nothing has moved, and the room is found and given back.
	r.placement.KillAt(1, "POST /allocations", true)
	r.refused(sluiceFleet+run, "Placement does not answer")
	r.placement.Restart()
	r.refused(sluiceFleet+run, "if it runs at the new host by now, repeat this with --end, else with --cancel")
	r.fleet(r.ask() + " --cancel")
	r.ledger(map[string]int{}, both)
	r.step("Placement killed at the first write, and the migration cancelled")

	// Killed before the last: the VM has moved.
	r.placement.KillAt(2, "POST /allocations", false)
	r.measured("b to a, Placement killed", func() {
		r.refused(sluiceFleet+run, "the VM is at a, and claimed at both hosts: repeat this with --end")
	})
	r.promisedAt("a", "virtio")
	r.placement.Restart()
	out, err := r.Run(r.ctx, sluiceFleet+"fsck --host-name a --host-uuid "+hostUUID("a"))
	if err == nil || !strings.Contains(out, "room is held for a migration of its NIC "+lab.MAC(r.vm)) {
		t.Errorf("fsck: %v, %s", err, out)
	}
	r.fleet(r.ask() + " --end")
	r.ledger(ours, others)
	r.step("Placement killed at the last write, and the migration ended")
	r.watched("a")
	r.watched("b")
	r.sound()
	if !*fleetVF {
		return
	}

	for host, config := range map[string]string{"a": configPath, "b": "/run/b/etc/sluice.yaml"} {
		r.run("sed -i 's/^policy: none/policy: activity\\ninterval: 5s/' %s && %ssluice reload", config, on(host))
	}
	r.holds("a", true)
	for _, to := range []string{"b", "a"} {
		r.measured("to "+to+" with a VF", func() { r.step("%s", r.fleet(run)) })
		if to == "b" {
			r.ledger(map[string]int{}, both)
		} else {
			r.ledger(ours, others)
		}
		r.holds(to, true)
		r.promisedAt(to, "vf")
	}
	r.sound()
}
