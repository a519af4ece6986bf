package qualify

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
)

// Judge makes a report of the measurements.
func Judge(m *Measured) api.Qualification {
	q := api.Qualification{
		PF: m.PF, At: m.At, Took: m.Took.Seconds(), Version: m.Version, Hardware: m.Hardware,
		Claims: claims(m), Failed: m.Failed, Left: m.Left,
	}
	for _, id := range m.VFs {
		q.VFs = append(q.VFs, id.String())
	}
	for _, t := range []struct {
		name string
		took []time.Duration
	}{{api.TimeUnbind, m.Unbind}, {api.TimeBind, m.Bind}, {api.TimeLink, m.Link}} {
		q.Times = appendTiming(q.Times, t.name, t.took)
	}
	for i := range m.Peers {
		p := &m.Peers[i]
		if p.Error != "" {
			q.Failed = append(q.Failed, "what the link carries to "+p.Address+": "+p.Error)
		} else {
			q.Capacity = append(q.Capacity, capacity(p))
		}
	}
	if len(m.Peers) == 0 {
		q.Notes = append(q.Notes, "without a peer, what the link carries was not measured (--peer ADDRESS)")
	}
	if m.Hardware.Emulated {
		q.Notes = append(q.Notes, "this NIC is emulated by QEMU: the figures show function, not speed")
	}
	if m.Scratch != nil {
		judgeScratch(&q, m.Scratch)
	} else {
		q.Notes = append(q.Notes, "without a scratch VM, attach, detach, loss in a move, and virtio versus VF were not measured (--vm VM)")
	}
	return q
}

func claims(m *Measured) []api.Claim {
	list := []api.Claim{
		maxRate(&m.MaxRate, m.Caps.MaxTxRate), minRate(&m.MinRate, m.Caps.MinTxRate), counters(&m.Counters, m.Caps.VFCounters),
		filters(&m.Filters, m.Slots),
	}
	for _, p := range passes {
		if c, tried := m.Passes[p.code]; tried {
			if m.Representors && p.represented != "" {
				p.text = p.represented
			}
			list = append(list, pass(p, c))
		}
	}
	if m.Representors {
		list = append(list, packets(&m.Packets))
	}
	return append(list, spoof(&m.Spoof))
}

// passing is a claim about whether frames arrive.
type passing struct {
	code, text, expected string
	represented          string // text where the VF has a representor; "": the same
	inverse              bool   // the claim is that no frame arrives
}

var passes = []passing{
	{
		code: api.ClaimVFToPF, text: "frames of a VF for the PF's address reach the host", expected: "yes",
		represented: "frames of a VF reach the host at its representor",
	},
	{
		code: api.ClaimPFToVF, text: "frames that the host sends out of the PF for a VF's address reach the VF", expected: "yes",
		represented: "frames that the host sends out of a VF's representor reach the VF",
	},
	{code: api.ClaimVFToVF, text: "frames of a VF for another VF's address reach it", expected: "yes"},
	{
		code: api.ClaimNeedsSelf, text: "frames of a VF for an address on the bridge do not reach the host without a filter on the PF",
		inverse: true,
	},
	{code: api.ClaimSelfFDB, text: "with a filter (bridge fdb add MAC dev PF self) they do", expected: "yes"},
	{code: api.ClaimLoopsToVF, text: "a VF receives its own broadcasts", expected: "no"},
	{code: api.ClaimLoopsToPF, text: "the PF receives its own broadcasts", expected: "no"},
}

func pass(p passing, c Count) api.Claim {
	got, evidence := arrived(c)
	if p.inverse && got != model.Unknown {
		got = model.TriOf(got == model.No)
	}
	return api.Claim{Code: p.code, Text: p.text, Expected: p.expected, Measured: got.String(), Evidence: evidence}
}

// arrived reports whether frames pass: if only a minority arrives, that proves neither.
func arrived(c Count) (model.Tri, string) {
	text := fmt.Sprintf("%d of %d arrived", c.Got, c.Sent)
	switch {
	case c.Error != "":
		return model.Unknown, c.Error
	case c.Sent == 0:
		return model.Unknown, "none was sent"
	case c.Got == 0:
		return model.No, text
	case c.Got*2 >= c.Sent:
		return model.Yes, text
	}
	return model.Unknown, text
}

// Thresholds for measurements that last about a second: a limit counts as kept up to keptWithin times its value, and as not kept from
// brokenFrom times. Without it, freeFrom times its value must pass to attribute the difference to it. On a busy host two such
// seconds may differ by more (by a factor of 4 in the lab): the most that passed with the limit and the median without it are compared.
const (
	keptWithin = 1.25
	brokenFrom = 1.5
	freeFrom   = 3.0
)

func maxRate(r *LimitTest, table model.Tri) api.Claim {
	c := api.Claim{Code: api.ClaimMaxTxRate, Text: "a VF's max_tx_rate is enforced", Expected: expected(table)}
	return limited(c, r, model.Bits, "sent", "the driver refuses it", "the driver accepts it but does not enforce it")
}

func packets(r *LimitTest) api.Claim {
	c := api.Claim{Code: api.ClaimVFPackets, Text: "the host's kernel can limit packets/s at a VF's representor"}
	pps := func(n float64) string { return model.SI(n) + " packets/s" }
	return limited(c, r, pps, "arrived", "the kernel refuses it", "the NIC forwards frames without the host")
}

// limited judges what passed without a limit and with one: by the most that ever passed with it, since one second in which it is exceeded
// proves that it is not kept, and a host that is busy for one second sends little without any limit. refused and breaks say what it means
// if the limit can't be set and if it is not kept.
func limited(c api.Claim, r *LimitTest, show func(float64) string, did, refused, breaks string) api.Claim {
	switch {
	case r.Refused != "":
		return settle(c, model.No, refused+": "+r.Refused)
	case r.Error != "":
		return settle(c, model.Unknown, r.Error)
	case r.Limit == 0 || len(r.Free) == 0 || len(r.Limited) == 0:
		return settle(c, model.Unknown, "not tried")
	}
	limit, free, passed := float64(r.Limit), middle(r.Free), slices.Max(r.Limited)
	evidence := fmt.Sprintf("%s %s with a limit of %s, %s without", show(passed), did, show(limit), show(free))
	switch {
	case passed >= brokenFrom*limit: // this proves it, however low the unlimited rate was
		return settle(c, model.No, breaks+": "+evidence)
	case free < freeFrom*limit:
		return settle(c, model.Unknown, evidence+": too little without it to see an effect of the limit")
	case passed == 0:
		return settle(c, model.Unknown, evidence+": a limit should let something pass")
	case passed <= keptWithin*limit:
		return settle(c, model.Yes, evidence)
	}
	return settle(c, model.Unknown, evidence+": too close to the limit to tell")
}

func minRate(r *MinRate, table model.Tri) api.Claim {
	c := api.Claim{Code: api.ClaimMinTxRate, Text: "the driver accepts a VF's min_tx_rate and shows it", Expected: expected(table)}
	switch {
	case r.Refused != "":
		return settle(c, model.No, "the driver refuses it: "+r.Refused)
	case r.Error != "":
		return settle(c, model.Unknown, r.Error)
	case r.Asked == 0:
		return settle(c, model.Unknown, "not tried")
	case r.Shown != r.Asked:
		return settle(c, model.No, fmt.Sprintf("%s requested, %s shown", model.Bits(float64(r.Asked)), model.Bits(float64(r.Shown))))
	}
	return settle(c, model.Yes, model.Bits(float64(r.Shown))+" shown; only a full link, which was not made, would show whether it is enforced")
}

func counters(r *Counted, table model.Tri) api.Claim {
	c := api.Claim{Code: api.ClaimVFCounters, Text: "the PF counts what its VFs send and receive", Expected: expected(table)}
	evidence := fmt.Sprintf("counted %d of %d frames sent, %d of %d received", r.TxCounted, r.Sent, r.RxCounted, r.Received)
	tx := enough(r.Sent, r.TxCounted)
	rx := enough(r.Received, r.RxCounted)
	switch {
	case r.Error != "":
		return settle(c, model.Unknown, r.Error)
	case r.Sent == 0 || r.Received == 0:
		return settle(c, model.Unknown, evidence)
	case tx && rx:
		return settle(c, model.Yes, evidence)
	case r.TxCounted == 0 && r.RxCounted == 0:
		return settle(c, model.No, evidence)
	}
	return settle(c, model.Unknown, evidence)
}

// enough reports whether most of the frames were counted; other broadcasts may be counted too.
func enough(passed, counted int) bool { return counted*10 >= passed*9 }

func filters(r *Filters, slots int) api.Claim {
	c := api.Claim{Code: api.ClaimPFFilters, Text: "the PF accepts filters for the addresses of VMs on the bridge"}
	total := r.Had + r.Added
	number := fmt.Sprintf("%d, of which it had %d before", total, r.Had)
	switch {
	case r.Error != "":
		return settle(c, model.Unknown, r.Error)
	case total == 0:
		return settle(c, model.No, "the driver refuses the first: "+cmp.Or(r.Refused, "no reason given"))
	case r.Refused == "":
		return settle(c, model.Yes, fmt.Sprintf("at least %s: more were not tried", number))
	}
	c.Number = total
	text := fmt.Sprintf("%s; then: %s", number, r.Refused)
	if slots > 0 && slots != total {
		text += fmt.Sprintf("; %d were expected", slots)
	}
	return settle(c, model.Yes, text)
}

func spoof(r *Spoof) api.Claim {
	c := api.Claim{
		Code: api.ClaimSpoofCheck, Text: "spoof checking keeps frames with a foreign source address from leaving a VF",
		Expected: "yes",
	}
	on, with := arrived(r.On)
	off, without := arrived(r.Off)
	evidence := fmt.Sprintf("with it %s, without it %s", with, without)
	switch {
	case r.Error != "":
		return settle(c, model.Unknown, r.Error)
	case on == model.Yes:
		return settle(c, model.No, evidence)
	case on == model.No && off == model.Yes:
		return settle(c, model.Yes, evidence)
	case on == model.No && off == model.No:
		return settle(c, model.Unknown, evidence+": something else blocks them too")
	}
	return settle(c, model.Unknown, evidence)
}

func settle(c api.Claim, is model.Tri, evidence string) api.Claim {
	c.Measured, c.Evidence = is.String(), evidence
	return c
}

func expected(t model.Tri) string {
	if t == model.Unknown {
		return ""
	}
	return t.String()
}

func appendTiming(to []api.Timing, name string, took []time.Duration) []api.Timing {
	if len(took) == 0 {
		return to
	}
	s := slices.Sorted(slices.Values(took))
	return append(to, api.Timing{Name: name, Count: len(s), Median: s[(len(s)-1)/2].Seconds(), Worst: s[len(s)-1].Seconds()})
}
