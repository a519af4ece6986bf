package config

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"sluice/internal/model"
)

// CheckWorld compares the configuration with the PFs of this host. It returns one error for every entry that names an
// unknown PF, or a PF whose VFs no VM could use: every plug would fail and be retried forever. Conditions that may resolve
// by themselves are not errors.
func (c *Config) CheckWorld(host []model.PF) error {
	var errs []*Error
	names := make([]string, len(host))
	for i := range host {
		names[i] = host[i].Name
	}
	for i, pf := range c.PFs {
		key := fmt.Sprintf("pfs[%d].name", i)
		report := func(key, text, remedy string) {
			errs = append(errs, &Error{Pos: c.pos[key], Key: key, Text: text, Remedy: remedy})
		}
		at := slices.Index(names, pf.Name)
		if at < 0 {
			report(key, fmt.Sprintf("unknown PF %q", pf.Name), pfRemedy(pf.Name, names))
			continue
		}
		switch up := host[at].Uplink; {
		case up.Why != "" && !up.Passes:
			report(key, "no VM could use VFs of "+pf.Name+": "+up.Why, up.Remedy)
		case pf.Network != "" && up.Switch != "" && pf.Network != up.Switch:
			report(fmt.Sprintf("pfs[%d].network", i),
				fmt.Sprintf("%s leads to bridge %s, not to %q: VMs of another bridge cannot be reached through its VFs", pf.Name, up.Switch,
					model.Shorten(pf.Network)),
				"write "+up.Switch+" or leave network out")
		}
	}
	return Join(errs, c.files...)
}

func pfRemedy(name string, have []string) string {
	if len(have) == 0 {
		return "this host has no PF with SR-IOV: load its driver, enable SR-IOV in firmware, and create VFs by sriov_numvfs"
	}
	return closest(name, have, "this host has "+strings.Join(slices.Sorted(slices.Values(have)), ", "))
}

// Warnings lists what is accepted but may not do what the user expects, each starting with its position, as errors do. The
// daemon logs them at startup and after a reload.
func (c *Config) Warnings() (list []string) {
	warn := func(at any, format string, args ...any) {
		list = append(list, fmt.Sprintf("%v: ", at)+fmt.Sprintf(format, args...))
	}
	file := "sluice.yaml"
	if len(c.files) > 0 {
		file = c.files[0]
	}
	for i, pf := range c.PFs {
		key := fmt.Sprintf("pfs[%d]", i)
		if _, set := c.pos[key+".vfs"]; !set {
			warn(c.pos[key+".name"], "%s: vfs is not set, so Sluice takes all VFs of %s; write vfs: all, or a list", key, pf.Name)
		}
	}
	list = append(append(list, c.shadowed()...), c.notShared()...)
	if len(c.PFs) == 0 {
		warn(file, "pfs lists no PF, so Sluice has no VF to assign; add one, for example `pfs: [{name: eth0, vfs: all}]`")
	}
	if g := c.GuestAgent; g.Enabled && c.Interval < 3*g.Every && (c.Policy == "activity" || c.Policy == "vnraf") {
		warn(file, "with guest_agent.every of %s, VF holders are counted fewer than three times in an interval of %s, "+
			"so %s may rank them by outdated loads; lower guest_agent.every", g.Every, c.Interval, c.Policy)
	}
	if c.Bandwidth.InGuest && !c.GuestAgent.Enabled {
		warn(c.pos["bandwidth.in_guest"], "bandwidth.in_guest limits nobody while guest_agent.enabled is false, since agents set limits "+
			"in guests; write guest_agent: {enabled: true}, or leave bandwidth.in_guest out")
	}
	if pos, set := c.pos["interval"]; set && c.always && c.Interval != Default().Interval {
		warn(pos, "interval has no effect on %s, which decides at every sample; leave it out", c.Policy)
	}
	for _, key := range []string{"worth.packet_cpu", "worth.kilobyte_cpu"} {
		if pos, set := c.pos[key]; set && !c.Worth.CPU {
			warn(pos, "%s has no effect while worth.cpu is false; write worth: {cpu: true}, or leave it out", key)
		}
	}
	if c.Worth.CPU && c.noCPU {
		warn(c.pos["worth.cpu"], "worth.cpu has no effect on %s, which does not rank by packets; choose adaptive or activity, or leave it out",
			c.Policy)
	}
	return list
}

// AfterRestart lists the keys that differ from the running configuration and that a reload cannot apply.
func (c *Config) AfterRestart(running *Config) []string {
	return fixed(reflect.ValueOf(*running), reflect.ValueOf(*c), "")
}

func fixed(a, b reflect.Value, path string) []string {
	var list []string
	for i := range a.NumField() {
		f := a.Type().Field(i)
		switch key := dotted(path, f.Tag.Get("yaml")); {
		case isSection(f.Type):
			list = append(list, fixed(a.Field(i), b.Field(i), key)...)
		case f.Tag.Get("reload") == "no" && !a.Field(i).Equal(b.Field(i)):
			list = append(list, key)
		}
	}
	return list
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
