package qualify

import (
	"fmt"
	"strings"

	"sluice/api/v1"
	"sluice/internal/model"
)

// Facts are what the daemon goes by in place of what it knows of drivers in general. Unknown and 0 say nothing.
type Facts struct {
	MaxTxRate  model.Tri
	MinTxRate  model.Tri
	VFCounters model.Tri
	SelfSlots  int // how many filters the PF takes
}

// FactsOf takes them out of a report.
func FactsOf(q *api.Qualification) Facts {
	f := Facts{}
	for i := range q.Claims {
		c := &q.Claims[i]
		switch c.Code {
		case api.ClaimMaxTxRate:
			f.MaxTxRate = tri(c.Measured)
		case api.ClaimMinTxRate:
			if f.MinTxRate = tri(c.Measured); f.MinTxRate == model.Yes {
				f.MinTxRate = model.Unknown // that it is shown does not prove that it is kept
			}
		case api.ClaimVFCounters:
			f.VFCounters = tri(c.Measured)
		case api.ClaimPFFilters:
			f.SelfSlots = c.Number
		}
	}
	return f
}

// Over puts facts in the place of what is assumed of a PF.
func (f *Facts) Over(pf *model.PF) {
	for _, x := range []struct {
		to   *model.Tri
		fact model.Tri
	}{{&pf.Caps.MaxTxRate, f.MaxTxRate}, {&pf.Caps.MinTxRate, f.MinTxRate}, {&pf.Caps.VFCounters, f.VFCounters}} {
		if x.fact != model.Unknown {
			*x.to = x.fact
		}
	}
	if f.SelfSlots > 0 {
		pf.SelfSlots = f.SelfSlots
	}
}

// Lost is what a VM loses in a move by these reports, in seconds of its traffic: the most of them. ok is false where none has
// measured it.
func Lost(reports []api.Qualification) (seconds float64, ok bool) {
	for i := range reports {
		if m := reports[i].Moves; m != nil && m.Moves > 0 {
			seconds, ok = max(seconds, m.LostMean, resolution(m)), true
		}
	}
	return seconds, ok
}

// resolution is the least mean loss that moves can show, seconds: that of one round trip in all of them. Moves without a
// loss prove only that theirs is below this, not that it is 0, and placement would move VMs as if that cost nothing.
func resolution(m *api.MoveCost) float64 {
	if m.Rate <= 0 {
		return 0
	}
	return 1 / (m.Rate * float64(m.Moves))
}

// Stale says what a report is about that the hardware at hand is not; "": it is about this.
func Stale(q *api.Qualification, now *api.QualifiedHardware) string {
	var out []string
	for _, x := range []struct{ what, was, is string }{
		{"NIC", q.Hardware.Device, now.Device},
		{"driver", q.Hardware.Driver, now.Driver},
		{"driver version", q.Hardware.Version, now.Version},
		{"firmware", q.Hardware.Firmware, now.Firmware},
		{"kernel", q.Hardware.Kernel, now.Kernel},
		{"number of VFs", fmt.Sprint(q.Hardware.NumVFs), fmt.Sprint(now.NumVFs)},
	} {
		if x.was != x.is {
			out = append(out, fmt.Sprintf("%s %q, now %q", x.what, x.was, x.is))
		}
	}
	return strings.Join(out, ", ")
}

// Problems is what doctor says about a PF's report; nil is that there is none.
func Problems(pf string, q *api.Qualification, now *api.QualifiedHardware) []model.Problem {
	say := func(text, remedy string) []model.Problem {
		return []model.Problem{{Subject: pf, Text: text, Remedy: remedy, Info: true}}
	}
	again := "sluice qualify " + pf + " --save"
	if q == nil {
		return say("nobody has tried what its NIC and driver do on this host", again)
	}
	if why := Stale(q, now); why != "" {
		return say("its report is about something else, and does not count: "+why, again)
	}
	var out []model.Problem
	for i := range q.Claims {
		if c := &q.Claims[i]; c.Expected != "" && c.Measured != c.Expected && c.Measured != model.Unknown.String() {
			out = append(out, say(fmt.Sprintf("%s: %s, by measurement (%s)", c.Text, c.Measured, c.Evidence), "Sluice goes by the measurement; measure again after an update of driver or firmware: "+again)...)
		}
	}
	if n := len(q.Paths); n > 0 {
		slower := 0
		for i := range q.Paths {
			if q.Paths[i].Boost <= 0 {
				slower++
			}
		}
		if slower == n && !q.Hardware.Emulated {
			out = append(out, say("a VF answered no faster than virtio, with packets of any size", "see its report: VFs may gain nothing on this host")...)
		}
	}
	return out
}

func tri(s string) (t model.Tri) {
	_ = t.UnmarshalText([]byte(s)) // what is no word of ours is not known
	return t
}
