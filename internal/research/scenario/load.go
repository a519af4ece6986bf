package scenario

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sluice/internal/config"
	"sluice/internal/control/placement"
	"sluice/internal/research/trace"
)

const help = "docs/sim.md"

// Open reads a scenario file. The error joins all errors found, each with its place.
func Open(name string) (*Scenario, error) {
	doc, bad := config.ReadFile(name)
	if bad != nil {
		return nil, bad
	}
	return Parse(doc)
}

// Parse reads a scenario from memory.
func Parse(doc config.Document) (*Scenario, error) {
	s := defaults()
	s.file = doc.Name
	pos, errs := config.Decode(doc, s, help)
	s.pos = pos
	c := &checker{s: s, errs: errs}
	if len(errs) == 0 { // values that could not be read are not checked further
		s.fill()
		c.check()
	}
	if err := config.Join(c.errs); err != nil {
		return nil, err
	}
	return s, nil
}

func keyOf(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// checker looks for inconsistencies.
type checker struct {
	s    *Scenario
	errs []*config.Error
}

// at adds an error at a key, or where its entry begins if the key is not in the file.
func (c *checker) at(key, text, remedy string) {
	pos, ok := c.s.pos[key]
	for k := key; !ok && k != ""; {
		k = k[:max(0, strings.LastIndexByte(k, '.'))]
		pos, ok = c.s.pos[k]
	}
	if !ok {
		pos = config.Pos{File: c.s.file}
	}
	c.errs = append(c.errs, &config.Error{Pos: pos, Key: key, Text: text, Remedy: remedy})
}

func (c *checker) check() {
	s := c.s
	if s.Duration == 0 {
		c.at("duration", "is missing", "say how long to run, such as 1h")
	} else if s.Duration < s.Sample {
		c.at("duration", "is shorter than one sample", "raise it or lower sample")
	}
	c.pfs()
	c.groups()
	c.timeline()
	c.bandwidth()
	c.faults()
	for i, b := range s.Telemetry.Blackouts {
		c.pattern(keyOf("telemetry.blackouts", i)+".vms", b.VMs)
	}
	for i, p := range s.Policies {
		key := keyOf("policies", i)
		for _, e := range CheckPolicy(p.Name, p.Params) {
			c.at(strings.TrimSuffix(key+"."+e.Key, "."), e.Text, e.Remedy)
		}
		if slices.ContainsFunc(s.Policies[:i], func(q Policy) bool { return q.Label == p.Label }) {
			c.at(key+".name", fmt.Sprintf("two policies are called %q in the table", p.Label), "give one of them a label")
		}
	}
}

// CheckPolicy returns errors for a policy that does not exist, or parameters that it does not have.
func CheckPolicy(name string, params map[string]float64) []config.Error {
	known, ok := placement.Policies()[name]
	if !ok {
		return []config.Error{{Key: "name", Text: fmt.Sprintf("unknown policy %q", name), Remedy: config.Suggest(name, placement.Names())}}
	}
	var out []config.Error
	for p, x := range params {
		if text, remedy := config.CheckParam(name, known.Params, p, x); text != "" {
			out = append(out, config.Error{Key: "params." + p, Text: text, Remedy: remedy})
		}
	}
	return out
}

func (c *checker) pfs() {
	s := c.s
	if len(s.PFs) == 0 {
		c.at("pfs", "there is no PF", "list at least one, with its name and number of vfs")
	}
	for i, p := range s.PFs {
		if slices.ContainsFunc(s.PFs[:i], func(q PF) bool { return q.Name == p.Name }) {
			c.at(keyOf("pfs", i)+".name", fmt.Sprintf("%q is listed twice", p.Name), "rename one of them")
		}
		if slices.ContainsFunc(s.PFs[:i], func(q PF) bool { return q.Network == p.Network && q.Uplink != p.Uplink }) {
			c.at(keyOf("pfs", i)+".uplink", fmt.Sprintf("network %s has a PF with another uplink", p.Network),
				"give all PFs of a network the same, or this one a network of its own")
		}
	}
	for i, l := range s.Links {
		if !slices.ContainsFunc(s.PFs, func(p PF) bool { return p.Name == l.PF }) {
			c.at(keyOf("links", i)+".pf", fmt.Sprintf("there is no PF %q", l.PF), "name one that pfs lists")
		}
	}
}

// mostVMs bounds the VMs of one host: far above any real one, far below what exhausts memory.
const mostVMs = 100_000

func (c *checker) groups() {
	s := c.s
	if len(s.VMs) == 0 {
		c.at("vms", "there are no VMs", "list at least one group, with its name and load")
	}
	total := 0
	seen := map[string]string{}
	for i := range s.VMs {
		g := &s.VMs[i]
		key := keyOf("vms", i)
		if total += g.Count; total > mostVMs {
			c.at(key+".count", fmt.Sprintf("more than %d VMs on one host", mostVMs), "lower it, or use hosts")
			return
		}
		for n := range g.Count {
			if first, twice := seen[g.vmName(n)]; twice {
				c.at(key+".name", fmt.Sprintf("VM %q is also in %s", g.vmName(n), first), "rename one of the groups")
				break
			}
			seen[g.vmName(n)] = key
		}
		c.span(key, g.From, g.Until)
		if g.Pin && g.Forbid {
			c.at(key+".forbid", "pin is also set", "keep one of them")
		}
		c.load(key+".load", &g.Load)
		c.functions(key, g)
	}
}

// span checks the order of two times.
func (c *checker) span(key string, from, until time.Duration) {
	if until > 0 && until <= from {
		c.at(key+".until", "is not after from", "raise it")
	}
}

func (c *checker) timeline() {
	s := c.s
	for i := range s.Timeline {
		ch := &s.Timeline[i]
		key := keyOf("timeline", i)
		if i > 0 && ch.At < s.Timeline[i-1].At {
			c.at(key+".at", "is before the change above it", "put changes in order of time")
		}
		if ch.At >= s.Duration {
			c.at(key+".at", "is after the end of the run", "lower it or raise duration")
		}
		c.pattern(key+".vms", ch.VMs)
		c.sendsItself(key+".vms", ch.VMs)
		c.load(key+".load", &ch.Load)
	}
}

// pattern rejects a pattern that is malformed or matches nothing.
func (c *checker) pattern(key, pattern string) {
	if _, err := path.Match(pattern, ""); err != nil {
		c.at(key, "malformed pattern", "write a name, or a shell pattern such as web*")
		return
	}
	for i := range c.s.VMs {
		g := &c.s.VMs[i]
		for n := range g.Count {
			if matches(pattern, g, g.vmName(n)) {
				return
			}
		}
	}
	c.at(key, fmt.Sprintf("%q matches no VM", pattern), "name a VM or group of vms")
}

func matches(pattern string, g *Group, name string) bool {
	if pattern == "" || pattern == g.Name {
		return true
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// needs lists the keys that a shape requires.
var needs = map[string][]string{
	"constant": {"pps"},
	"on-off":   {"pps", "on", "off"},
	"pareto":   {"pps", "on", "off"},
	"diurnal":  {"pps", "swing"},
	"flash":    {"pps", "at"},
	"duty":     {"pps", "on", "off"},
	"walk":     {"pps", "low", "off"},
	"trace":    {"file"},
}

func (c *checker) load(key string, l *Load) {
	if _, set := c.s.pos[key+".shape"]; !set && l.PPS == 0 && l.Compute == 0 {
		return // idle
	}
	for _, k := range needs[l.Shape] {
		if k == "pps" && l.Send.Bits > 0 || k == "low" && l.SendLow.Bits > 0 {
			continue
		}
		if _, set := c.s.pos[key+"."+k]; !set && !(l.Shape == "constant" && l.Compute > 0) {
			c.at(key+".shape", fmt.Sprintf("shape %s needs %q", l.Shape, k), "add it; "+help+" lists the keys of each shape")
		}
	}
	if l.Shape == "walk" && (l.Low <= 0 || l.Low > l.PPS) {
		c.at(key+".low", "is not above 0 and below pps", "a walk goes between low and pps, evenly on a logarithmic scale")
	}
	if l.Compute > 0 && (l.ComputeOn > 0) != (l.ComputeOff > 0) {
		c.at(key+".compute", "only one of compute_on and compute_off is set", "set both or neither")
	}
	if l.Shape == "trace" && l.File != "" {
		c.trace(key, l)
	}
}

func (c *checker) trace(key string, l *Load) {
	if !filepath.IsAbs(l.File) {
		l.File = filepath.Join(filepath.Dir(c.s.file), l.File)
	}
	set, err := trace.Load(l.File, trace.Options{})
	if err != nil {
		c.at(key+".file", err.Error(), "")
		return
	}
	l.set = set
	if l.VM != "" && l.series(0) == nil {
		c.at(key+".vm", fmt.Sprintf("the trace has no VM %q", l.VM), "name one from its vm column")
	}
}

// series returns the series that the n-th VM of the group plays.
func (l *Load) series(n int) *trace.Series {
	if l.VM == "" {
		return l.set.Series[n%len(l.set.Series)]
	}
	for _, s := range l.set.Series {
		if s.VM == l.VM {
			return s
		}
	}
	return nil
}

// vmName returns the name of the n-th VM of the group.
func (g *Group) vmName(n int) string {
	if g.Count == 1 {
		return g.Name
	}
	return fmt.Sprintf("%s%d", g.Name, n+1)
}

// Phases returns the ends of the phases: the changes of the timeline, with show.all also arrivals and departures of VMs, and the end of
// the run.
func (s *Scenario) Phases() []time.Duration {
	out := []time.Duration{s.Duration}
	for _, c := range s.Timeline {
		out = append(out, c.At)
	}
	for i := range s.VMs {
		if g := &s.VMs[i]; s.Show.All {
			out = append(out, g.From, g.Until)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(d time.Duration) bool { return d > s.Duration || d == 0 && s.Show.All })
}

// SetVFs gives the only PF so many VFs.
func (s *Scenario) SetVFs(n int) error {
	if len(s.PFs) != 1 {
		return fmt.Errorf("--vfs can only change a scenario or recording that has one PF, and %s has %d", s.file, len(s.PFs))
	}
	s.PFs[0].VFs = n
	return nil
}

// SetPolicies replaces the policies to compare. Those in the scenario keep their parameters; interval applies to the others, 0: each
// policy's own.
func (s *Scenario) SetPolicies(names []string, interval time.Duration) {
	var out []Policy
	for _, n := range names {
		i := slices.IndexFunc(s.Policies, func(p Policy) bool { return p.Label == n || p.Name == n })
		if i >= 0 {
			out = append(out, s.Policies[i])
		} else {
			out = append(out, Policy{Name: n, Label: n, Interval: cmp.Or(interval, placement.Interval(n))})
		}
	}
	s.Policies = out
}
