package qualify

import (
	"fmt"
	"slices"
	"strings"

	"sluice/api/v1"
	"sluice/internal/model"
)

// Facts replace the daemon's general assumptions about drivers. Unknown and 0 replace nothing.
type Facts struct {
	MaxTxRate  model.Tri
	MinTxRate  model.Tri
	VFCounters model.Tri
	VFPackets  model.Tri
	SelfSlots  int // number of filters that the PF accepts

	Capacity uint64 // bits/s that the link carries: the lowest figure, if frames with several tags were measured
	Speed    uint64 // bits/s of the link then: the capacity says nothing of another speed
	Tags     string // the tags with which Capacity was measured
}

// FactsOf extracts the facts from a report.
func FactsOf(q *api.Qualification) Facts {
	f := Facts{Speed: q.Hardware.Speed}
	for i := range q.Capacity {
		c := &q.Capacity[i]
		bits := uint64(max(0, c.Bits))
		if f.Speed > 0 {
			bits = min(bits, f.Speed)
		}
		if tri(c.Measured) == model.Yes && (f.Capacity == 0 || bits < f.Capacity) {
			f.Capacity, f.Tags = bits, TagText(c.VLAN)
		}
	}
	for i := range q.Claims {
		c := &q.Claims[i]
		switch c.Code {
		case api.ClaimMaxTxRate:
			f.MaxTxRate = tri(c.Measured)
		case api.ClaimMinTxRate:
			if f.MinTxRate = tri(c.Measured); f.MinTxRate == model.Yes {
				f.MinTxRate = model.Unknown // that the driver shows it does not prove that it is enforced
			}
		case api.ClaimVFCounters:
			f.VFCounters = tri(c.Measured)
		case api.ClaimVFPackets:
			f.VFPackets = tri(c.Measured)
		case api.ClaimPFFilters:
			f.SelfSlots = c.Number
		}
	}
	return f
}

// TagText names the tag of frames.
func TagText(vlan int) string {
	if vlan == 0 {
		return "untagged"
	}
	return fmt.Sprintf("with VLAN %d", vlan)
}

// triedBehind is the kind of uplink behind which limits in packets/s are tried. Behind others a NIC may forward more by itself.
const triedBehind = "linux-bridge"

// Over replaces the assumptions about a PF by the facts.
func (f *Facts) Over(pf *model.PF) {
	for _, x := range []struct {
		to   *model.Tri
		fact model.Tri
	}{{&pf.Caps.MaxTxRate, f.MaxTxRate}, {&pf.Caps.MinTxRate, f.MinTxRate}, {&pf.Caps.VFCounters, f.VFCounters}} {
		if x.fact != model.Unknown {
			*x.to = x.fact
		}
	}
	if pf.Uplink.Representors && pf.Uplink.Kind == triedBehind {
		pf.Caps.VFPackets = f.VFPackets
	}
	if f.SelfSlots > 0 {
		pf.SelfSlots = f.SelfSlots
	}
	if f.Speed == pf.Speed {
		pf.Carry(f.Capacity, model.CapacityQualified, f.Tags)
	}
}

// Lost returns what a VM loses in a move according to these reports, in seconds of its traffic: the highest of their means. ok is false if
// no report has measured it.
func Lost(reports []api.Qualification) (seconds float64, ok bool) {
	for i := range reports {
		if m := reports[i].Moves; m != nil && m.Moves > 0 {
			seconds, ok = max(seconds, m.LostMean, resolution(m)), true
		}
	}
	return seconds, ok
}

// resolution returns the least mean loss that the moves can show, in seconds: one round trip lost in all of them. Moves without loss prove
// only that the loss is below this, not that it is 0; with 0, placement would treat moves as free.
func resolution(m *api.MoveCost) float64 {
	if m.Rate <= 0 {
		return 0
	}
	return 1 / (m.Rate * float64(m.Moves))
}

// Stale returns how the current hardware differs from that of a report; "": it is the same.
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

// Problems returns what doctor reports about a PF's report; q is nil if there is none.
func Problems(pf string, q *api.Qualification, now *api.QualifiedHardware) []model.Problem {
	say := func(text, remedy string) []model.Problem {
		return []model.Problem{{Subject: pf, Text: text, Remedy: remedy, Info: true}}
	}
	again := "sluice qualify " + pf + " --save"
	if q == nil {
		return say("its NIC and driver have not been measured on this host", again)
	}
	if why := Stale(q, now); why != "" {
		return say("its report is about other hardware or software and is ignored: "+why, again)
	}
	var out []model.Problem
	for i := range q.Claims {
		if c := &q.Claims[i]; c.Expected != "" && c.Measured != c.Expected && c.Measured != model.Unknown.String() {
			out = append(out, say(fmt.Sprintf("%s: %s, by measurement (%s)", c.Text, c.Measured, c.Evidence),
				"Sluice uses the measurement; measure again after an update of driver or firmware: "+again)...)
		}
	}
	faster := slices.ContainsFunc(q.Paths, func(p api.PathBySize) bool { return p.Boost > 0 })
	if len(q.Paths) > 0 && !faster && !q.Hardware.Emulated {
		out = append(out, say("a VF answered no faster than virtio with packets of any size",
			"see its report: VFs may gain nothing on this host")...)
	}
	return out
}

func tri(s string) (t model.Tri) {
	_ = t.UnmarshalText([]byte(s)) // an unknown word leaves it Unknown
	return t
}
