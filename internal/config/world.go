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
	var names []string
	for i := range host {
		names = append(names, host[i].Name)
	}
	for i, pf := range c.PFs {
		key := fmt.Sprintf("pfs[%d].name", i)
		complain := func(key, text, remedy string) {
			errs = append(errs, &Error{Pos: c.pos[key], Key: key, Text: text, Remedy: remedy})
		}
		at := slices.Index(names, pf.Name)
		if at < 0 {
			complain(key, fmt.Sprintf("unknown PF %q", pf.Name), pfRemedy(pf.Name, names))
			continue
		}
		switch up := host[at].Uplink; {
		case up.Why != "" && !up.Passes:
			complain(key, "no VM could use VFs of "+pf.Name+": "+up.Why, up.Remedy)
		case pf.Network != "" && up.Switch != "" && pf.Network != up.Switch:
			complain(fmt.Sprintf("pfs[%d].network", i), fmt.Sprintf("%s leads to bridge %s, not to %q: VMs of another bridge cannot be reached through its VFs", pf.Name, up.Switch, shorten(pf.Network)), "write "+up.Switch+" or leave network out")
		}
	}
	return join(errs, c.files)
}

func pfRemedy(name string, have []string) string {
	if best := closest(name, have); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(have) == 0 {
		return "this host has no PF with SR-IOV: load its driver, and enable SR-IOV in firmware and VFs in sriov_numvfs"
	}
	return "this host has " + strings.Join(slices.Sorted(slices.Values(have)), ", ")
}

// Warnings lists what is accepted but may not do what the user expects, each starting with its position, as errors do. The
// daemon logs them at startup and after a reload.
func (c *Config) Warnings() []string {
	var list []string
	for i, pf := range c.PFs {
		key := fmt.Sprintf("pfs[%d]", i)
		if _, set := c.pos[key+".vfs"]; !set {
			list = append(list, fmt.Sprintf("%s: %s: no vfs: Sluice takes all VFs of %s; write vfs: all, or a list", c.pos[key+".name"], key,
				pf.Name))
		}
	}
	list = append(append(list, c.shadowed()...), c.needVFs()...)
	if len(c.PFs) == 0 {
		list = append(list, c.name()+": pfs lists no PF, so Sluice has no VF to hand out; add one, for example `pfs: [{name: eth0, vfs: all}]`")
	}
	if g := c.GuestAgent; g.Enabled && c.Interval < 3*g.Every && (c.Policy == "activity" || c.Policy == "vnraf") {
		list = append(list, fmt.Sprintf("%s: guest_agent.every of %s counts holders less than three times in an interval of %s, so %s may rank them by old loads; ask more often", c.name(), g.Every, c.Interval, c.Policy))
	}
	if c.Bandwidth.InGuest && !c.GuestAgent.Enabled {
		list = append(list, fmt.Sprintf("%s: bandwidth.in_guest limits nobody while guest_agent.enabled is false, since agents set limits in guests; write guest_agent: {enabled: true}, or leave bandwidth.in_guest out", c.pos["bandwidth.in_guest"]))
	}
	if pos, set := c.pos["interval"]; set && c.always && c.Interval != Default().Interval {
		list = append(list, fmt.Sprintf("%s: interval says nothing to %s, which decides at every sample; leave it out", pos, c.Policy))
	}
	list = append(list, c.pointless()...)
	if c.API.Listen != "" && !loopback(c.API.Listen) {
		list = append(list, fmt.Sprintf("%s: api.listen lets every host that reaches %s read VM names and loads; write 127.0.0.1 unless that is meant", c.pos["api.listen"], c.API.Listen))
	}
	return list
}

// pointless warns about keys of worth that have no effect given the others.
func (c *Config) pointless() (list []string) {
	warn := func(key, text string) {
		if pos, set := c.pos[key]; set {
			list = append(list, fmt.Sprintf("%s: %s %s", pos, key, text))
		}
	}
	switch {
	case !c.Worth.CPU:
		for _, key := range []string{"worth.packet_cpu", "worth.kilobyte_cpu"} {
			warn(key, "says nothing while worth.cpu is false; write worth: {cpu: true}, or leave it out")
		}
	case c.noCPU:
		warn("worth.cpu", fmt.Sprintf("says nothing to %s, which does not go by packets; choose adaptive or activity, or leave it out", c.Policy))
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

// name returns the name of the main file, or a default.
func (c *Config) name() string {
	if len(c.files) == 0 {
		return "sluice.yaml"
	}
	return c.files[0]
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
