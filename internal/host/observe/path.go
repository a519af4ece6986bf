package observe

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"sluice/internal/host/guest"
	"sluice/internal/model"
)

// answer is one answer of a guest, with the host's counters of the tap before and after it.
type answer struct {
	before sample // the tap when the guest was asked; zero if it had not been read
	after  sample // the tap at the first Snapshot after the answer
	at     time.Time
	devs   []guest.Counters
	err    error
}

// vfPath computes the rates of a VF from the guest's counters of its own interfaces. A guest does not name their roles: of the interfaces
// with the pair's MAC, one is the virtio NIC, one is the VF, and one may be the failover or bond over both.
type vfPath struct {
	meters map[string]*meter
	seen   time.Time // time of the last answer, or when the VF was attached; older answers are not about this VF
	last   answer
	has    bool
	good   time.Time // time of the last believed figure
	out    model.Traffic
}

// The guest counts frames as they leave the ring and the host as they enter it, so the two differ by up to the length of the ring and by
// the frames dropped in between.
const (
	tapSlack   = 0.1
	tapPackets = 2048
)

// take evaluates a new answer; bound is what the VF's link carries. It returns false if the guest should not be asked again soon.
func (p *vfPath) take(a answer, mac model.MAC, g gaps, bound limit) bool {
	p.seen = a.at
	if a.err != nil {
		p.fail(a.err)
		return false
	}
	if gap := a.at.Sub(p.last.at); p.has && gap >= 0 && gap < g.min {
		return true // too soon after the previous answer to compute a rate
	}
	p.out = model.Traffic{Source: model.SourceAgent}
	devs := p.measure(a, mac, g)
	prev, had := p.last, p.has
	p.last, p.has = a, true
	p.out.Note = notReady(devs, had)
	if p.out.Note != "" {
		return true
	}
	virtio, vf := roles(devs, prev, a)
	return p.judge(vf.rate, virtio.moved, prev, a, bound)
}

// fail records that there is no answer, or none that can be parsed. The last figure stays valid until it is too old, unless the guest sent
// an invalid answer.
func (p *vfPath) fail(err error) {
	if errors.Is(err, guest.ErrAnswer) {
		p.out, p.good = model.Traffic{Source: model.SourceAgent}, time.Time{}
	}
	p.out.Note = "the guest agent does not answer: " + err.Error()
}

// notReady returns why the interfaces give no figure yet, "" if they do.
func notReady(devs []device, had bool) string {
	switch {
	case len(devs) < 2:
		return "the guest shows no second interface with the MAC of its virtio NIC"
	case !had:
		return "first answer of the guest"
	}
	for _, d := range devs {
		if !d.rate.Known {
			return "guest interface " + d.name + ": " + d.rate.Note
		}
	}
	return ""
}

// judge checks the guest's figures against what the host itself knows: the capacity of the VF's link, and the tap's counters for the
// guest's virtio NIC. That proves nothing about the VF, which package claim judges further.
func (p *vfPath) judge(vf model.Traffic, virtio counts, prev, a answer, bound limit) bool {
	lo, hi, checked := between(prev, a)
	p.good = time.Time{}
	denied := max(1, vf.RxPPS+vf.TxPPS)
	switch {
	case bound.exceeded(vf):
		p.out.Denied = denied
		p.out.Note = "not believed: the guest says its VF carried more than the link can"
		return false
	case checked && !within(virtio, lo, hi):
		p.out.Denied = denied
		p.out.Note = "not believed: the guest's figures for its virtio NIC contradict the tap's counters"
		return false
	}
	p.good = a.at
	p.out = vf
	p.out.Source, p.out.At, p.out.Proof = model.SourceAgent, a.at, model.ProofGuest
	return true
}

// figure returns the last figure if it is not too old.
func (p *vfPath) figure(now time.Time, fresh time.Duration) model.Traffic {
	if p.out == (model.Traffic{}) {
		return model.Traffic{Source: model.SourceAgent, Note: "no answer of the guest yet"}
	}
	if p.out.Known && now.Sub(p.good) > fresh {
		return model.Traffic{Source: model.SourceAgent, Note: p.out.Note}
	}
	return p.out
}

// device is what one guest interface moved between two answers.
type device struct {
	name  string
	moved counts
	rate  model.Traffic
}

// measure feeds the meters and returns the interfaces with the MAC, sorted by name.
func (p *vfPath) measure(a answer, mac model.MAC, g gaps) []device {
	meters := make(map[string]*meter, 3)
	devs := make([]device, 0, 3)
	for _, c := range a.devs {
		if c.MAC != mac || meters[c.Name] != nil {
			continue
		}
		m := p.meters[c.Name]
		if m == nil {
			m = &meter{}
		}
		now := counts{c.RxPackets, c.TxPackets, c.RxBytes, c.TxBytes}
		moved, _ := now.since(m.last.count)
		meters[c.Name] = m
		rate := m.add(sample{at: a.at, count: now}, g, limitOf(0, 1))
		rate.Waiting = c.TxWaiting
		devs = append(devs, device{c.Name, moved, rate})
	}
	p.meters = meters // an interface that was absent starts over
	slices.SortFunc(devs, func(a, b device) int { return cmp.Compare(a.name, b.name) })
	return devs
}

// roles returns which of two or more interfaces is the virtio NIC and which the VF. Of more than two, the busiest is the failover or bond
// over both, virtio is the one whose count is closest to the tap's, and the VF is the one closest to the difference between the busiest and
// virtio: VLANs and bridges in the guest may add further interfaces. If two are equally close they moved the same amount, so either
// will do.
func roles(devs []device, prev, a answer) (virtio, vf device) {
	rest := slices.Clone(devs)
	top := device{}
	if len(rest) > 2 {
		top, rest = pull(rest, func(d device) float64 { return -d.moved.packets() })
	}
	virtio, rest = pull(rest, tapDistance(prev, a))
	want := top.moved.packets() - virtio.moved.packets()
	vf, _ = pull(rest, func(d device) float64 { return math.Abs(d.moved.packets() - want) })
	return virtio, vf
}

// pull removes the device with the lowest cost from the slice.
func pull(devs []device, cost func(device) float64) (device, []device) {
	best := 0
	for i := range devs {
		if cost(devs[i]) < cost(devs[best]) {
			best = i
		}
	}
	got := devs[best]
	return got, slices.Delete(devs, best, best+1)
}

// tapDistance measures the distance, in packets, between what a device moved and what the tap moved on average between two answers.
func tapDistance(prev, a answer) func(device) float64 {
	_, hi, _ := between(prev, a)
	share := 1.0 // the tap was watched for longer than the time between the answers
	if span := a.after.at.Sub(prev.before.at); span > 0 {
		share = min(1, float64(a.at.Sub(prev.at))/float64(span))
	}
	return func(d device) float64 {
		return math.Abs(float64(d.moved.rxPackets)-share*float64(hi.rxPackets)) +
			math.Abs(float64(d.moved.txPackets)-share*float64(hi.txPackets))
	}
}

func (c counts) packets() float64 { return float64(c.rxPackets) + float64(c.txPackets) }

// between returns the least and the most that the tap can have moved between two answers, and false if the host does not know. The guest
// read its counters at some time between question and answer, so the bounds come from the nearest samples around that time.
func between(a, b answer) (lo, hi counts, ok bool) {
	if a.before.at.IsZero() || b.before.at.IsZero() || a.before.boot != b.after.boot {
		return lo, hi, false
	}
	hi, ok = b.after.count.since(a.before.count)
	if !b.before.at.Before(a.after.at) {
		lo, _ = b.before.count.since(a.after.count)
	}
	return lo, hi, ok
}

// within reports whether a guest's counts lie between the host's bounds.
func within(c, lo, hi counts) bool {
	fits := func(x, lo, hi uint64, slack float64) bool {
		return float64(x) >= float64(lo)*(1-tapSlack)-slack && float64(x) <= float64(hi)*(1+tapSlack)+slack
	}
	const perPacket = 65536 // with segmentation offload a packet may be this long
	return fits(c.rxPackets, lo.rxPackets, hi.rxPackets, tapPackets) &&
		fits(c.txPackets, lo.txPackets, hi.txPackets, tapPackets) &&
		fits(c.rxBytes, lo.rxBytes, hi.rxBytes, tapPackets*perPacket) &&
		fits(c.txBytes, lo.txBytes, hi.txBytes, tapPackets*perPacket)
}
