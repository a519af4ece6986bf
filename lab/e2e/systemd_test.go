//go:build lab

package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/lab"
)

// withReboot enables the step that takes longest.
var withReboot = flag.Bool("systemd-reboot", false, "take the package under systemd also through a reboot of the host")

// byPackage is the sluice.yaml of the host with the package: moves are only made on request.
const byPackage = `mode: enforce
policy: none
guest_agent: {every: 1s, timeout: 1s}
pfs:
  - {name: pf0, vfs: 0-1}
moves: {plug_timeout: 60s, unplug_timeout: 60s}
`

// systemdRig is a host whose PID 1 is systemd, with the package installed.
type systemdRig struct {
	*rig
	deb string // on this machine
}

// TestPackageUnderSystemd takes the .deb through its life cycle on a Debian host: installed by apt, started by systemd with all its
// restrictions, put to work, reloaded, restarted during a move, upgraded, hung, removed.
func TestPackageUnderSystemd(t *testing.T) {
	t.Parallel()
	r := systemdRig{&rig{
		Host: lab.OpenForTest(t, lab.Options{Systemd: true, Guests: []string{"vm1"}}), t: t, ctx: t.Context(),
		loads: map[string]*lab.Flow{},
	}, newest(t, "sluice")}
	step := func(name string, f func()) {
		begin := time.Now()
		f()
		t.Logf("%s: %s", name, time.Since(begin).Round(time.Second))
	}
	step("installed", r.install)
	step("started", r.startUnit)
	step("restrictions in force", r.restricted)
	step("plug and unplug", r.plugAndUnplug)
	step("reload", r.reload)
	step("the fleet's service", r.fleet)
	step("what another policy would have done", r.whatIf) // wants a minute of history
	step("restart during moves", r.restartDuringMoves)
	step("upgrade", r.upgrade)
	step("hung daemon", r.hang)
	if *withReboot {
		step("reboot", r.reboot)
	}
	step("removal", r.remove)
}

// newest returns the file of a package that `make package` built last.
func newest(t *testing.T, name string) string {
	t.Helper()
	debs, err := filepath.Glob("../../dist/" + name + "_*.deb")
	if err != nil || len(debs) == 0 {
		t.Fatalf("no package in dist, %v; make it: make package", err)
	}
	last, at := "", time.Time{}
	for _, deb := range debs {
		if info, err := os.Stat(deb); err == nil && info.ModTime().After(at) {
			last, at = deb, info.ModTime()
		}
	}
	return last
}

const apt = "DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold -y "

func (r systemdRig) install() {
	r.must(r.Put(r.ctx, r.deb, "/root/sluice.deb"))
	said := r.run(apt + "install /root/sluice.deb")
	if !strings.Contains(said, "systemctl enable --now sluice") {
		r.t.Errorf("apt does not say what to do next: %s", said)
	}
	// Nothing runs before it is requested.
	if state := r.run("systemctl is-active sluice; systemctl is-enabled sluice; true"); state != "inactive\ndisabled" {
		r.t.Errorf("after the installation the service is %q", state)
	}
	r.run("getent group sluice && sluice config check /etc/sluice/sluice.yaml")
}

func (r systemdRig) startUnit() {
	r.configure(byPackage)
	r.run("systemctl enable --now sluice")
	r.forward()
	r.ready()
}

// ready waits until the daemon has observed the host.
func (r systemdRig) ready() {
	r.t.Helper()
	r.eventually(2*time.Minute, "the daemon has looked at the host", func() error {
		s, err := r.client.Status(r.ctx)
		if err == nil && s.Observed.IsZero() {
			err = fmt.Errorf("not yet: %s", s.Error)
		}
		return err
	})
}

func (r systemdRig) property(name string) string {
	r.t.Helper()
	return r.run("systemctl show -p %s --value sluice", name)
}

// asShown is what systemd shows for a directive where that differs from the unit's text.
var asShown = map[string]string{
	"LimitMEMLOCK":            "infinity",
	"CapabilityBoundingSet":   "cap_chown cap_dac_override cap_net_admin cap_net_raw cap_sys_admin cap_perfmon cap_bpf",
	"RestrictAddressFamilies": "AF_INET AF_INET6 AF_NETLINK AF_PACKET AF_UNIX",
	"UMask":                   "0077",
	"RestrictNamespaces":      "yes",
	"SystemCallErrorNumber":   "1",
}

// restricted checks every restriction of the unit: systemd has accepted it, and the kernel enforces it on the daemon.
func (r systemdRig) restricted() {
	unit, err := os.ReadFile("../../packaging/sluice.service")
	r.must(err)
	directive := regexp.MustCompile(`(?m)^((?:Protect|Private|Restrict|NoNew|Lock|Memory|SystemCall|Capability|UMask|LimitMEM)\w+)=(.*)$`)
	found := directive.FindAllStringSubmatch(string(unit), -1)
	if len(found) < 18 {
		r.t.Errorf("the unit has %d restrictions", len(found))
	}
	for _, d := range found {
		name, want := d[1], d[2]
		if shown, ok := asShown[name]; ok {
			want = shown
		}
		got := r.property(name)
		if name == "SystemCallFilter" {
			if !strings.Contains(" "+got+" ", " bpf ") || strings.Contains(" "+got+" ", " init_module ") ||
				strings.Contains(" "+got+" ", " ptrace ") {
				r.t.Errorf("SystemCallFilter lets %s pass", got)
			}
			continue
		}
		if got != want {
			r.t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	pid := r.property("MainPID")
	status := r.run("cat /proc/%s/status", pid)
	for _, want := range []string{
		"CapInh:\t0000000000000000", "CapPrm:\t000000c000203003", "CapEff:\t000000c000203003", "CapBnd:\t000000c000203003",
		"CapAmb:\t0000000000000000",
		"NoNewPrivs:\t1", "Seccomp:\t2",
	} {
		if !strings.Contains(status, want+"\n") {
			r.t.Errorf("/proc/%s/status lacks %q:\n%s", pid, want, status)
		}
	}
	// The file system as the daemon sees it.
	for _, path := range []string{"/usr", "/etc/sluice", "/var/lib", "/home"} {
		if out, err := r.Run(r.ctx, fmt.Sprintf("nsenter -t %s -m touch %s/touched", pid, path)); err == nil {
			r.t.Errorf("%s is not read-only: %s", path, out)
		}
	}
	r.run("nsenter -t %s -m sh -c 'touch /var/lib/sluice/t /run/sluice/t && rm /var/lib/sluice/t /run/sluice/t && "+
		"[ ! -e /dev/vda ] && [ ! -e /dev/kvm ] && [ -d /sys/fs/bpf ]'", pid)
	exposure := r.run("systemd-analyze security --no-pager sluice | tail -n 1")
	r.t.Log(exposure)
}

// plugAndUnplug tests the daemon's work: a VF to a guest and back, through the dual path in which both paths receive every frame, and
// the answers of the guest's agent.
func (r systemdRig) plugAndUnplug() {
	watch, err := r.Start(r.ctx, "while :; do ls /sys/fs/bpf/*/mirrors 2>/dev/null; sleep 0.1; done")
	r.must(err)
	r.do(api.VerbPin)
	r.t.Logf("plugged after %s", r.holding(2*time.Minute, "vm1"))
	r.idle(time.Minute)
	r.must(watch.Kill(r.ctx))
	if pins, _ := watch.Output(); !strings.Contains(pins, "tap1") {
		r.t.Errorf("no dual path was open during the move: %q", pins)
	}
	r.reach("vm1")
	r.eventually(time.Minute, "the guest agent counts what the VF carries", func() error {
		vms, err := r.client.VMs(r.ctx)
		for _, v := range vms {
			if err == nil && v.Name == "vm1" && strings.Contains(strings.Join(v.Sources, " "), "agent") {
				return nil
			}
		}
		return errors.Join(errNotYet, err)
	})
	r.do(api.VerbRelease)
	r.t.Logf("unplugged after %s", r.holding(2*time.Minute))
	r.idle(time.Minute)
	r.reach("vm1")
	r.clean()
}

func (r systemdRig) do(verb api.Verb) {
	r.t.Helper()
	_, err := r.client.Do(r.ctx, verb, api.Request{VM: "vm1"})
	r.must(err)
}

// whatIf makes the daemon start its child process, to which its restrictions apply too.
func (r systemdRig) whatIf() {
	r.eventually(3*time.Minute, "what other policies would have done", func() error {
		w, err := r.client.WhatIf(r.ctx)
		if err == nil && w.Computed.IsZero() {
			err = errNotYet
		}
		if w.Error != "" {
			err = fmt.Errorf("%s: %s", w.Error, w.Remedy)
		}
		return err
	})
}

// reload applies a change, and rejects an invalid one without harm.
func (r systemdRig) reload() {
	pid := r.property("MainPID")
	r.configure(byPackage + "vms: [{match: vm1, limit: 50Mbit}]\n")
	r.run("systemctl reload sluice")
	r.eventually(time.Minute, "vm1 is limited", func() error {
		out, err := r.Run(r.ctx, "sluice sla")
		if err == nil && !strings.Contains(out, "50Mbit") {
			err = errors.New(out)
		}
		return err
	})
	r.configure(byPackage + "nonsense: 1\n")
	r.run("systemctl reload sluice")
	r.eventually(time.Minute, "status shows the error", func() error {
		out, err := r.Run(r.ctx, "sluice status")
		if err == nil && !strings.Contains(out, "nonsense") {
			err = errors.New(out)
		}
		return err
	})
	r.configure(byPackage)
	r.run("systemctl reload sluice")
	r.eventually(time.Minute, "status shows no error any more", func() error {
		out, err := r.Run(r.ctx, "sluice status")
		if err == nil && strings.Contains(out, "nonsense") {
			err = errors.New(out)
		}
		return err
	})
	if now := r.property("MainPID"); now != pid {
		r.t.Errorf("the daemon is process %s, and was %s before the reloads", now, pid)
	}
}

// dynamicUser is one of systemd's UIDs for DynamicUser=, 61184 to 65519.
var dynamicUser = regexp.MustCompile(`^6[1-5]\d{3}\nactive$`)

var failedRound = regexp.MustCompile(`(?m)^sluice_fleet_failures_total [1-9]`)

// fleet starts the service that publishes to Placement, here to one that is away: it runs as a user of its own who may query the daemon,
// changes nothing, and goes on trying.
func (r systemdRig) fleet() {
	const state = "systemctl is-active sluice-fleet; true"
	if got := r.run("systemctl start sluice-fleet; " + state); got != "inactive" {
		r.t.Errorf("without fleet.env the fleet's service is %q", got)
	}
	r.run("umask 077 && echo OS_PLACEMENT_ENDPOINT_OVERRIDE=http://127.0.0.1:9 > /etc/sluice/fleet.env && systemctl start sluice-fleet")
	r.eventually(time.Minute, "its metrics count a round that failed", func() error {
		out, err := r.Run(r.ctx, "cat /run/sluice-fleet/fleet.prom && journalctl -u sluice-fleet -o cat")
		if err == nil && (!failedRound.MatchString(out) || !strings.Contains(out, "Placement does not answer")) {
			err = errors.New(out)
		}
		return err
	})
	if got := r.run("ps -o uid= -p $(systemctl show -p MainPID --value sluice-fleet); " + state); !dynamicUser.MatchString(got) {
		r.t.Errorf("the fleet's service runs as %q", got)
	}
	likeIt := "systemd-run -q --pipe --wait -p DynamicUser=yes -p SupplementaryGroups=sluice -- sluice "
	r.run("%s", likeIt+"capacity")
	if out, err := r.Run(r.ctx, likeIt+"drain 2>&1"); err == nil || !strings.Contains(out, "may not") {
		r.t.Errorf("its user may drain the host: %v, %s", err, out)
	}
	r.run("systemctl stop sluice-fleet && rm /etc/sluice/fleet.env")
}

// restartDuringMoves restarts the service while a VF is plugged, and while it is unplugged.
func (r systemdRig) restartDuringMoves() {
	for _, verb := range []api.Verb{api.VerbPin, api.VerbRelease} {
		r.do(verb)
		faultRig{r.rig}.underWay()
		r.run("systemctl restart sluice")
		r.ready()
		if verb == api.VerbPin {
			r.holding(2*time.Minute, "vm1")
		} else {
			r.holding(2 * time.Minute)
		}
		r.idle(time.Minute)
		r.reach("vm1")
		r.clean()
	}
}

// held identifies the VF in vm1 as the guest sees it: a device that is plugged again has another number.
func (r systemdRig) held() string {
	r.t.Helper()
	name, _, err := r.GuestVF(r.ctx, "vm1")
	r.must(err)
	if name == "" {
		r.t.Fatal("vm1 has no VF")
	}
	out, err := r.GuestExec(r.ctx, "vm1", "cat /sys/class/net/"+name+"/ifindex")
	r.must(err)
	return name + " " + strings.TrimSpace(out)
}

// upgrade installs a later version over this one: a new daemon, the same VF.
func (r systemdRig) upgrade() {
	r.do(api.VerbPin)
	r.holding(2*time.Minute, "vm1")
	r.idle(time.Minute)
	before, pid := r.held(), r.property("MainPID")
	r.must(r.Put(r.ctx, later(r.t, r.deb), "/root/later.deb"))
	r.t.Log(r.run(apt + "install /root/later.deb"))
	r.ready()
	if now := r.property("MainPID"); now == pid {
		r.t.Error("the upgrade did not restart the daemon")
	}
	if out := r.run("dpkg-query -W -f '${Version} ${Status}' sluice; cat " + configPath); !strings.Contains(out, "~later") &&
		!strings.Contains(out, "+later") || !strings.HasSuffix(out, strings.TrimSpace(byPackage)) {
		r.t.Errorf("after the upgrade: %s", out)
	}
	if after := r.held(); after != before {
		r.t.Errorf("the VF of vm1 was %s and is %s after the upgrade", before, after)
	}
	r.holding(time.Minute, "vm1")
	r.reach("vm1")
	r.clean()
	// A configuration that the new version rejects: the old daemon keeps running.
	pid = r.property("MainPID")
	r.configure(byPackage + "nonsense: 1\n")
	if said := r.run(apt + "install --reinstall /root/later.deb 2>&1"); !strings.Contains(said, "nonsense") ||
		!strings.Contains(said, "the old daemon keeps running") {
		r.t.Errorf("the package does not report the error in sluice.yaml: %s", said)
	}
	if now := r.property("MainPID"); now != pid {
		r.t.Error("the daemon was restarted on a configuration that it rejects")
	}
	r.configure(byPackage)
}

// later builds a later version of a package.
func later(t *testing.T, deb string) string {
	t.Helper()
	dir := t.TempDir()
	script := `dpkg-deb -R "$1" "$2/tree" && sed -i 's/^Version: .*/&+later/' "$2/tree/DEBIAN/control" &&
		dpkg-deb --root-owner-group -Zgzip -z1 -b "$2/tree" "$2/later.deb"`
	if out, err := exec.CommandContext(t.Context(), "bash", "-ec", script, "later", deb, dir).CombinedOutput(); err != nil {
		t.Fatalf("make a later version: %v\n%s", err, out)
	}
	return dir + "/later.deb"
}

// hang stops the daemon's process permanently: systemd kills it and starts another.
func (r systemdRig) hang() {
	before, pid := r.held(), r.property("MainPID")
	r.run("kill -STOP %s", pid)
	r.eventually(4*time.Minute, "systemd starts another daemon", func() error {
		if now := r.property("MainPID"); now == pid || now == "0" {
			return fmt.Errorf("its main process is %s", now)
		}
		return nil
	})
	r.ready()
	r.holding(2*time.Minute, "vm1")
	if after := r.held(); after != before {
		r.t.Errorf("the VF of vm1 was %s and is %s after the watchdog's restart", before, after)
	}
	r.reach("vm1")
	r.clean()
	if out := r.run("journalctl -u sluice --no-pager -o cat"); !strings.Contains(out, "Watchdog timeout") {
		r.t.Error("it was not the watchdog")
	}
}

// reboot reboots the host while a VM holds a VF: the service starts again by itself, there are no leftovers, and the VM gets its VF
// when it runs again.
func (r systemdRig) reboot() {
	r.must(r.Restart(r.ctx))
	r.forward()
	r.ready()
	r.holding(time.Minute)
	r.clean()
	r.run("lsmod | grep -q ^vfio_pci && virsh -q start vm1")
	r.holding(5*time.Minute, "vm1") // it is pinned
	r.reach("vm1")
	r.clean()
}

// remove removes and purges the package while a VM holds a VF, which stays with it.
func (r systemdRig) remove() {
	before := r.held()
	if said := r.run(apt + "remove sluice"); !strings.Contains(said, "vm1") || !strings.Contains(said, "/var/lib/sluice") {
		r.t.Errorf("the removal does not say what it leaves: %s", said)
	}
	if after := r.held(); after != before {
		r.t.Errorf("the VF of vm1 was %s and is %s after the removal", before, after)
	}
	r.reach("vm1")
	r.run("[ -e /etc/sluice/sluice.yaml ] && [ -d /var/lib/sluice ] && ! systemctl is-active sluice && [ ! -e /usr/bin/sluiced ]")
	r.t.Log(r.run(apt + "purge sluice"))
	r.run("[ ! -e /etc/sluice/sluice.yaml ] && [ ! -e /var/lib/sluice ] && [ ! -e /run/sluice ]")
	r.reach("vm1")
}
