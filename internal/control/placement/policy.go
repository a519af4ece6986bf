// Package placement decides which NIC holds a VF. A Policy ranks the VMs of one network; the Decider around it applies what no
// policy may override: pins, vetoes, owners, networks and NUMA nodes. Both are deterministic: the time and all other inputs are
// arguments.
package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/internal/model"
)

// Candidate is one NIC of a VM as a policy sees it: it can be given a VF, and its VF can be taken away.
type Candidate struct {
	VM       model.VMID
	NIC      string  // alias; distinguishes NICs of one VM
	Name     string  // of the VM
	Holds    bool    // it has a VF, or a plug is under way
	PPS      float64 // packets/s on both paths and in both directions; with Worth.CPU, packets/s of model.WorthSize of the same CPU cost
	Bytes    float64 // bytes/s, likewise
	CPU      float64 // host CPUs in use
	CPUShare float64 // CPU over its vCPUs, 0..1
	Known    bool    // PPS and Bytes are usable; false during a blackout of telemetry
	Weight   float64 // > 0; includes the factor for its latency sensitivity
	Worth    float64 // value of a packet: Weight times the factor applied to PPS
	Priority int     // higher values come first whatever the load
	Cost     Cost    // measured cost of a move of this VM on this host
}

func (c *Candidate) id() model.NICID { return model.NICID{VM: c.VM, NIC: c.NIC} }

// before orders candidates by VM, then NIC.
func (c *Candidate) before(o *Candidate) int { return c.id().Compare(o.id()) }

// Cost is the measured cost of moves on this host, of this VM where known.
type Cost struct {
	Plug   time.Duration // mean time of a plug, during which the benefit is lost
	Unplug time.Duration // mean time of an unplug
	Fail   float64       // share of moves that failed, 0..1
}

// Policy chooses which candidates hold the slots of one network. Select is called at every sample; a policy that works in
// rounds keeps its decision between them. It fills in one Reason per candidate in out (same length and order, empty but for
// names), at most slots of them with Hold set. It may keep state between calls, but uses no clock and no randomness of its own.
// State that the next call needs is in exported fields, which encoding/json can write and read back.
type Policy interface {
	Select(now time.Time, cands []Candidate, slots int, out []model.Reason)
}

// sinceLast returns the seconds since a policy's last call, or first at its first call, and records this call.
func sinceLast(last *time.Time, now time.Time, first float64) float64 {
	if !last.IsZero() {
		first = max(0, now.Sub(*last).Seconds())
	}
	*last = now
	return first
}

// maker constructs a policy and lists its parameters.
type maker struct {
	make   func(model.Rules) Policy
	params params
	rounds bool // it decides once per interval; the others at every sample
	// interval is the round length of the policy's paper, if it works in rounds; 0: FlexVF's.
	interval time.Duration
	spares   bool // it may leave VFs unused although a VM could have them
	packets  bool // it ranks by packets/s, so packets may be weighted by their cost
}

// makers holds every policy by name; a new policy needs a file of its own and a line here.
var makers = map[string]maker{
	"fair":     {make: newFair, rounds: true},
	"activity": {make: newActivity, rounds: true, packets: true},
	"adaptive": {make: newAdaptive, params: adaptiveParams, packets: true},
	"rentbuy":  {make: newRentBuy, packets: true},
	"vnraf":    {make: newVNRAF, params: vnrafParameters, rounds: true, interval: vnrafPeriod, spares: true},
	"none":     {make: newNone, spares: true},
	"random":   {make: newRandom, params: randomParams},
}

// Names lists the policies in alphabetical order.
func Names() []string { return slices.Sorted(maps.Keys(makers)) }

// params are the parameters of a policy: the single definition of their names, defaults and ranges.
type params []model.Param

// of reads a parameter from the rules. It panics if the policy has no parameter of that name.
func (p params) of(r model.Rules, name string) float64 {
	i := slices.IndexFunc(p, func(q model.Param) bool { return q.Name == name })
	if x, set := r.Params[name]; set {
		return x
	}
	return p[i].Default
}

// Policies describes every policy; the config is checked against that.
func Policies() map[string]model.PolicyInfo {
	out := map[string]model.PolicyInfo{}
	for name, m := range makers {
		out[name] = model.PolicyInfo{Params: m.params, Rounds: m.rounds, Interval: m.interval, Packets: m.packets}
	}
	return out
}

// Rounds reports whether a policy works in rounds, one per interval; the others decide at every sample.
func Rounds(name string) bool { return makers[name].rounds }

// Interval is the default time between two rounds of a policy.
func Interval(name string) time.Duration { return cmp.Or(makers[name].interval, model.DefaultInterval) }

// NewPolicy constructs the policy named in the rules.
func NewPolicy(r model.Rules) (Policy, error) {
	m, ok := makers[r.Policy]
	if !ok {
		return nil, fmt.Errorf("policy %q does not exist: choose one of %s", r.Policy, strings.Join(Names(), ", "))
	}
	return m.make(r), nil
}
