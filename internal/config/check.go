package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/model"
)

// checker checks that values that are each well-formed are consistent with each other.
type checker struct {
	*Config
	d *decoder
}

// check fills in defaults that depend on other keys and reports contradictions.
func check(c *Config, known Known, d *decoder) {
	k := checker{Config: c, d: d}
	k.policy(known)
	k.times()
	k.pfs()
	k.vms()
	k.guests()
	k.classes()
	k.bandwidth(known)
	k.paths()
	k.libvirt()
	k.listen()
}

// report records an error at a key's position, at most once per key.
func (k checker) report(key, text, remedy string) {
	if !k.d.bad[key] {
		k.d.report(k.pos[key], key, text, remedy)
	}
}

// good reports whether a key was set and its value could be read.
func (k checker) good(key string) bool {
	_, set := k.pos[key]
	return set && !k.d.bad[key]
}

func (k checker) policy(known Known) {
	if known.Policies == nil {
		return
	}
	p, ok := known.Policies[k.Policy]
	if !ok {
		k.report("policy", fmt.Sprintf("unknown policy %q", model.Shorten(k.Policy)),
			Suggest(k.Policy, slices.Collect(maps.Keys(known.Policies))))
		return
	}
	k.always, k.noCPU = !p.Rounds, !p.Packets
	if _, set := k.pos["interval"]; !set {
		k.Interval = max(cmp.Or(p.Interval, model.DefaultInterval), k.Sample)
	}
	for name, x := range k.Params {
		if text, remedy := CheckParam(k.Policy, p.Params, name, x); text != "" {
			k.report("params."+name, text, remedy)
		}
	}
}

// CheckParam returns what is wrong with a parameter of a policy and what to write instead; both are "" if it is valid.
// known are the parameters that the policy takes.
func CheckParam(policy string, known []model.Param, name string, x float64) (text, remedy string) {
	i := slices.IndexFunc(known, func(p model.Param) bool { return p.Name == name })
	if i < 0 {
		var names []string
		for _, p := range known {
			names = append(names, p.Name)
		}
		return "policy " + policy + " has no such parameter", Suggest(name, names)
	}
	if p := known[i]; !(x >= p.Min && x <= p.Max) {
		number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
		remedy := fmt.Sprintf("write a value from %s to %s", number(p.Min), number(p.Max))
		if p.Unit != "" {
			remedy += " (" + p.Unit + ")"
		}
		return fmt.Sprintf("%q is out of range", number(x)), remedy
	}
	return "", ""
}

// times checks durations that must be in a certain order. It never blames a key that was left at its default.
func (k checker) times() {
	k.order("interval", int64(k.Interval), "sample", int64(k.Sample))
	k.order("moves.backoff_max", int64(k.Moves.BackoffMax), "moves.backoff", int64(k.Moves.Backoff))
	k.order("guest_agent.every", int64(k.GuestAgent.Every), "guest_agent.timeout", int64(k.GuestAgent.Timeout))
}

func (k checker) order(large string, l int64, small string, s int64) {
	if l >= s || k.d.bad[large] || k.d.bad[small] {
		return
	}
	if k.good(large) {
		k.report(large, "is shorter than "+small, "raise it or lower "+small)
		return
	}
	k.report(small, "is longer than "+large, "lower it or set "+large)
}

// ifName matches what Linux accepts as an interface name, without characters that nobody uses.
var ifName = regexp.MustCompile(`^[A-Za-z0-9_.@:-]{1,15}$`)

func (k checker) pfs() {
	seen := map[string]string{}
	for i := range k.PFs {
		pf := &k.PFs[i]
		key := fmt.Sprintf("pfs[%d]", i)
		if _, set := k.pos[key+".vfs"]; !set {
			pf.VFs.All = true
		}
		k.only(key+".speed", pf.Speed, "bits")
		if !k.good(key + ".name") {
			continue
		}
		if !ifName.MatchString(pf.Name) {
			k.report(key+".name", fmt.Sprintf("%q is not an interface name", model.Shorten(pf.Name)), "take one from `ip link`")
		}
		k.unique(seen, pf.Name, key+".name", "PF")
	}
}

// unique reports an error if an earlier entry has the same name.
func (k checker) unique(seen map[string]string, name, key, what string) {
	first, twice := seen[name]
	if twice {
		k.report(key, fmt.Sprintf("%s %q already has an entry, at %s", what, model.Shorten(name), k.pos[first]), "merge the two")
		return
	}
	seen[name] = key
}

func (k checker) vms() {
	seen := map[string]string{}
	for i := range k.VMs {
		vm := &k.VMs[i]
		key := fmt.Sprintf("vms[%d]", i)
		if model.IsUUID(vm.Match) {
			vm.Match = strings.ToLower(vm.Match)
		}
		if k.good(key + ".match") {
			k.match(vm, key+".match", seen)
		}
		k.vm(vm, key)
	}
}

func (k checker) classes() {
	seen := map[string]string{}
	var names []string
	for i := range k.Classes {
		c, key := &k.Classes[i], fmt.Sprintf("classes[%d]", i)
		if k.good(key + ".name") {
			k.unique(seen, c.Name, key+".name", "class")
			if c.Name == "" {
				k.report(key+".name", "is empty", "write the name by which rules refer to it")
			}
		}
		names = append(names, c.Name)
		k.rates(key, c.Guarantee, c.Limit)
		k.only(key+".minimum", c.Minimum, "bits")
		if above(c.Minimum.Bits, c.Limit.Bits) {
			k.report(key+".minimum", fmt.Sprintf("%s is above the limit of %s", c.Minimum, Rate{Bits: c.Limit.Bits}),
				"raise the limit or lower the minimum")
		}
	}
	for i, vm := range k.VMs {
		if key := fmt.Sprintf("vms[%d].class", i); len(names) > 0 && k.good(key) && !slices.Contains(names, vm.Class) {
			k.report(key, fmt.Sprintf("unknown class %q", model.Shorten(vm.Class)), Suggest(vm.Class, names))
		}
	}
}

func (k checker) match(vm *VM, key string, seen map[string]string) {
	pattern := vm.Match
	if !k.pattern(pattern, key) {
		return
	}
	if vm.SLANIC != "" {
		pattern += ", sla_nic " + vm.SLANIC
	}
	k.unique(seen, pattern, key, "pattern")
}

// pattern reports an error for a pattern that cannot match any VM.
func (k checker) pattern(pattern, key string) bool {
	_, err := path.Match(pattern, "")
	bad := err != nil || pattern == ""
	if bad {
		k.report(key, fmt.Sprintf("%q is not a pattern", model.Shorten(pattern)),
			"write a VM's name or UUID; * matches any characters, ? any one, [ab] either a or b")
	}
	return !bad
}

func (k checker) vm(vm *VM, key string) {
	if _, err := path.Match(vm.NIC, ""); k.good(key+".nic") && (err != nil || vm.NIC == "") {
		k.report(key+".nic", fmt.Sprintf("%q is not a pattern", model.Shorten(vm.NIC)),
			"write a NIC's alias, MAC or network, or leave it out for every NIC that can have a VF")
	}
	if vm.Pin && vm.Forbid {
		k.report(key+".forbid", "contradicts pin", "keep one of the two")
	}
	k.rates(key, vm.Guarantee, vm.Limit)
	k.slaNIC(key, vm)
}

// maxSocket is the longest path that fits into a unix socket address.
const maxSocket = 107

func (k checker) paths() {
	k.absolute("state_dir", k.StateDir)
	k.absolute("api.socket", k.API.Socket)
	if len(k.API.Socket) > maxSocket {
		k.report("api.socket", fmt.Sprintf("is longer than the %d bytes that a socket's path may have", maxSocket), "choose a shorter path")
	}
}

func (k checker) absolute(key, p string) {
	if !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" {
		k.report(key, fmt.Sprintf("%q is not an absolute path", model.Shorten(p)), "begin it with /, and write no '..', '//' or final '/'")
	}
}

// libvirt rejects other hosts: Sluice moves only the VFs of its own host.
func (k checker) libvirt() {
	u, err := url.Parse(k.Libvirt.URI)
	switch {
	case err != nil || u.Scheme == "":
		k.report("libvirt.uri", fmt.Sprintf("%q is not a libvirt URI", model.Shorten(k.Libvirt.URI)), "write qemu:///system")
	case u.Host != "":
		k.report("libvirt.uri", fmt.Sprintf("names another host, %q", model.Shorten(u.Host)), "run Sluice on that host and write qemu:///system")
	}
}

func (k checker) listen() {
	if k.API.Listen == "" {
		return
	}
	host, port, err := net.SplitHostPort(k.API.Listen)
	n, perr := strconv.ParseUint(port, 10, 16)
	if err != nil || perr != nil || n == 0 || !hostOK(host) {
		k.report("api.listen", fmt.Sprintf("%q is not an address to listen on", model.Shorten(k.API.Listen)),
			"write an IP address and port, such as 127.0.0.1:9178")
		return
	}
	switch secure := k.API.TLSCert != "" && k.API.TLSKey != "" && k.API.Tokens != ""; {
	case (k.API.TLSCert == "") != (k.API.TLSKey == ""):
		k.report("api.listen", "has only one of api.tls_cert and api.tls_key", "set both, or none")
	case !secure && !loopback(k.API.Listen):
		k.report("api.listen", fmt.Sprintf("would let every host that reaches %s read VM names and loads", k.API.Listen),
			"set api.tls_cert, api.tls_key and api.tokens, or write 127.0.0.1 and put a proxy in front that checks who asks")
	}
}

func hostOK(host string) bool {
	_, err := netip.ParseAddr(host)
	return host == "" || host == "localhost" || err == nil
}
