package placement

import (
	"time"

	"sluice/internal/model"
)

// vnraf is Ye et al.'s VF scheduler. At every sample (the loop's interval, section 4.4) it adds up each VM's bytes and CPU
// time; at every scheduling period (section 4.6) it computes, over the samples since the last,
//
//	io_degree  = 100 (1 - CPU time / (time x cores))       equations 1 to 3
//	net_degree = eps data_avg + (1 - eps) traffic_freq     equations 4 to 6
//
// and sorts the VMs into two queues: PQ, whose VMs hold VFs, and GQ, all others. A VM with io_degree below the threshold is
// CPU-bound, one without traffic is not network-bound: both stay in GQ even if VFs are free. PQ is ordered by net_degree; a VM
// of GQ that overtakes the last of a full PQ takes its place. Between periods the queues do not change, except that a place
// that becomes free is filled. Every VF has one of the bandwidth tiers of section 4.5, whoever holds it.
//
// Equation 4 adds bytes to a share of samples, so that eps makes no difference unless it is 0, and the paper's own Table 2 follows only so.
// With normalize, data_avg is a share too: of the largest of the round.
//
// The paper divides CPU time by the host's cores, but its Table 2 (half of one CPU gives io_degree 55) follows only with the
// VM's own cores, which are the default here.
type vnraf struct {
	params vnrafParams
	Next   time.Time
	Last   time.Time
	Mem    memory[vnrafMem]
	order  ranking
	Tiers  *tiers
}

// vnrafParams are the paper's parameters, with its values where it gives any.
type vnrafParams struct {
	period    time.Duration // vnrafPeriod, unless the rules set another
	eps       float64       // "0.7"
	threshold float64       // "according to the environment": between the 70 and 60 of Table 3's VM3 and VM8
	cores     float64       // 0: the VM's own
	normalize bool          // the paper's equation does not
}

// vnrafPeriod is the paper's scheduling period: "every 10 s".
const vnrafPeriod = 10 * time.Second

type vnrafMem struct {
	Samples, Busy int     // in this period, and those of them with any traffic
	Bytes         float64 // sum of the samples' bytes
	CPU           float64 // sum of the samples' CPU shares
	Net, IO       float64 // degrees at the last scheduling
	Known         bool    // it has been scheduled at least once
	PQ            bool
}

var vnrafParameters = params{
	{
		Name: "eps", Unit: "share", Default: 0.7, Max: 1,
		Doc: "weight of the amount of traffic, in bytes, against its frequency, the share of samples with traffic, as published. " +
			"Bytes are so many more that without normalize only 0 makes a difference: it ranks VMs by how often they send",
	},
	{
		Name: "normalize", Unit: "0 or 1", Max: 1,
		Doc: "1: the amount of traffic counts as a share of the largest of the round, so that eps weighs the two. The published equation " +
			"does not",
	},
	{
		Name: "io_threshold", Unit: "percent", Default: 65, Max: 100,
		Doc: "a VM whose io_degree (100 less its CPU use) is below gets no VF. Lower it if busy network VMs count as CPU-bound",
	},
	{
		Name: "host_cores", Unit: "CPUs", Max: 4096,
		Doc: "the number of cores of which CPU use is a share; 0: the VM's own. Set it to the host's cores for the paper's literal equation",
	},
	{
		Name: "vf0_mbit", Unit: "Mbit/s", Max: 1e6,
		Doc: "the smallest tier of bandwidth; setting it limits what VFs may send; 0: no tiers. Set it if no VM may take the whole link",
	},
	{
		Name: "delta_mbit", Unit: "Mbit/s", Max: 1e6,
		Doc: "step from one tier to the next; a VM gets the smallest one left that fits what it sends. Raise it if needs differ widely",
	},
	{
		Name: "link_mbit", Unit: "Mbit/s", Max: 1e7,
		Doc: "the bandwidth to which the tiers of a PF's VFs together are reduced; 0: what the PF's link carries. " +
			"Set it to leave part of the link to virtio",
	},
}

func (v *vnraf) copy() Policy {
	c := *v
	c.Mem, c.Tiers = v.Mem.copy(), v.Tiers.copy()
	return &c
}

func newVNRAF(r model.Rules) Policy {
	get := func(name string) float64 { return vnrafParameters.of(r, name) }
	p := vnrafParams{
		period: r.Interval, eps: get("eps"), threshold: get("io_threshold"), cores: get("host_cores"), normalize: get("normalize") > 0,
	}
	if r.Interval <= 0 {
		p.period = vnrafPeriod
	}
	const mbit = 1e6
	return &vnraf{params: p, Tiers: &tiers{
		first: get("vf0_mbit") * mbit, step: get("delta_mbit") * mbit, link: get("link_mbit") * mbit,
		period: p.period,
	}}
}

// Select implements Policy.
func (v *vnraf) Select(now time.Time, cands []Candidate, slots int, out []model.Reason) {
	mem := v.Mem.sync(cands, func(*vnrafMem) {})
	dt := sinceLast(&v.Last, now, 1)
	for i, m := range mem {
		m.sample(&cands[i], dt, v.params.cores)
	}
	round := !now.Before(v.Next) && anyKnown(cands)
	if round {
		v.Next = now.Add(v.params.period)
	}
	scale := 1.0
	if v.params.normalize {
		scale = largest(mem)
	}
	for _, m := range mem {
		if round || !m.Known {
			m.schedule(v.params.eps, scale, round)
		}
	}
	v.queue(cands, mem, slots, round)
	v.write(cands, mem, slots, out)
}

func (m *vnrafMem) sample(c *Candidate, dt, cores float64) {
	if !c.Known || dt == 0 {
		return
	}
	m.Samples++
	m.Bytes += c.Bytes * dt
	if c.Bytes > 0 {
		m.Busy++
	}
	share := c.CPUShare
	if cores > 0 {
		share = c.CPU / cores
	}
	m.CPU += min(1, share)
}

// largest returns the largest data_avg of the present samples, at least 1.
func largest(mem []*vnrafMem) float64 {
	most := 1.0
	for _, m := range mem {
		if m.Samples > 0 {
			most = max(most, m.Bytes/float64(m.Samples))
		}
	}
	return most
}

// schedule turns the period's samples into degrees; data_avg is divided by scale. Without samples the last degrees remain.
func (m *vnrafMem) schedule(eps, scale float64, round bool) {
	if m.Samples > 0 {
		n := float64(m.Samples)
		m.IO = 100 * (1 - m.CPU/n)
		m.Net = eps*m.Bytes/n/scale + (1-eps)*float64(m.Busy)/n
		m.Known = m.Known || round
	}
	if round {
		m.Samples, m.Busy, m.Bytes, m.CPU = 0, 0, 0, 0
	}
}

// queue orders the VMs: between rounds PQ stays in front. CPU-bound VMs come last. Of two with the same net_degree the one with
// less CPU use goes first: the paper prefers purely network-bound VMs to mixed ones.
func (v *vnraf) queue(cands []Candidate, mem []*vnrafMem, slots int, round bool) {
	v.order = v.order[:0]
	for i, m := range mem {
		v.order = append(v.order, ranked{
			i: i, key: m.Net * cands[i].Weight, second: m.IO, front: !round && m.PQ, back: v.cpuBound(m),
			priority: cands[i].Priority, holds: cands[i].Holds,
		})
	}
	v.order.sort(cands)
	for n, e := range v.order {
		mem[e.i].PQ = n < slots && !v.general(mem[e.i])
	}
}

func (v *vnraf) cpuBound(m *vnrafMem) bool { return m.IO < v.params.threshold }

// general reports whether a VM belongs in GQ even if VFs are free.
func (v *vnraf) general(m *vnrafMem) bool { return v.cpuBound(m) || m.Net <= 0 }

// caps implements capper.
func (v *vnraf) caps(now time.Time, links []link) {
	v.Tiers.caps(now, links)
}

func (v *vnraf) write(cands []Candidate, mem []*vnrafMem, slots int, out []model.Reason) {
	v.order.verdicts(cands, slots, "vnraf", model.CodeRank, model.CodeOutranked, out)
	for n, e := range v.order {
		m, why := mem[e.i], &out[e.i]
		why.Hold = m.PQ
		switch {
		case !m.PQ && n < slots:
			why.Code, why.Other, why.OtherNm = model.CodeOutranked, "", ""
			why.Detail = "CPU-bound: its io_degree is below the threshold"
			if !v.cpuBound(m) {
				why.Detail = "it had no traffic in the last round"
			}
		case !cands[e.i].Known:
			why.Detail = "its load is not known now; it is ranked by its last known load"
		}
	}
}
