package bandwidth

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/model"
)

const (
	mostTakers    = 3                // that a shortage names
	shortageLasts = 10 * time.Second // after this it is a Problem; shorter ones end by themselves
)

// party is those who share a link, or what their virtual PF may send.
type party struct {
	name      string // of what they share
	nics      []*nic
	carried   float64 // bits/s, from all of them
	uncounted float64 // bits/s of that, which no NIC is known to send
	crowded   bool
}

// shortage is a model.Shortage with the two halves of its Text.
type shortage struct {
	model.Shortage
	lack string // who lacks how much
	have string // who has it
}

// shortages are those of all links, and inside virtual PFs that do not lack anything themselves.
type shortages struct {
	links  map[*uplink]*shortage
	inside map[*virtualPF]*shortage
}

// of returns the shortage in which the NIC takes part, or nil.
func (s *shortages) of(n *nic) *shortage {
	if n.whole != nil && n.whole.short == 0 {
		return s.inside[n.whole]
	}
	return s.links[n.link]
}

// shortages says who lacks part of what it is promised, and who has that instead. It changes nothing.
func (c *Core) shortages() *shortages {
	all := &shortages{map[*uplink]*shortage{}, map[*virtualPF]*shortage{}}
	for _, l := range c.links {
		all.links[l] = c.shortage(&party{l.pf, l.nics, max(l.carried, l.port.tx.Bits), l.uncounted(), l.crowded()})
	}
	for _, v := range c.vpfs {
		if v.short == 0 {
			all.inside[v] = c.shortage(&party{"virtual PF " + v.name + " of " + v.called(), v.functions, v.sent.Bits, 0, v.crowded()})
		}
	}
	return all
}

// uncounted is what leaves the link's port and no NIC is known to send, unless readings at different times explain it.
func (l *uplink) uncounted() float64 {
	if more := l.port.tx.Bits - l.carried; more > uncounted*float64(l.speed) {
		return more
	}
	return 0
}

// shortage describes what the party lacks; nil: nothing.
func (c *Core) shortage(p *party) *shortage {
	var s shortage
	var names []string
	lacks, promised, sent := 0.0, 0.0, 0.0
	for _, n := range p.nics {
		if n.short > 0 {
			names = append(names, p.nameOf(n))
			lacks, promised, sent = lacks+n.short, promised+float64(n.promised.Bits), sent+n.sent.Bits
			s.For = max(s.For, c.at.Sub(n.shortFrom))
		}
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		s.lack = fmt.Sprintf("%s gets %s of the %s it is promised", names[0], rough(sent), rough(promised)) + wants(sent, lacks, promised, "asks")
	default:
		s.lack = fmt.Sprintf("%s get %s of the %s they are promised", and(names), rough(sent), rough(promised)) +
			wants(sent, lacks, promised, "ask")
	}
	s.Bits = uint64(lacks)
	all := p.beyond(lacks)
	for i, left := 0, lacks; i < len(all) && i < mostTakers && left > 0; i++ {
		s.Takers = append(s.Takers, c.taker(p, all[i], lacks))
		left -= all[i].bits
	}
	s.say(c, p, all)
	return &s
}

// wants says what those who are short ask for, in bits/s, if that is less than what they are promised: what they get and what they lack
// do not add up to that then.
func wants(sent, lacks, promised float64, ask string) string {
	if asks := sent + lacks; asks < (1-shortShare)*promised {
		return fmt.Sprintf(" and %s for %s", ask, rough(asks))
	}
	return ""
}

// excess is what a NIC sends beyond what it is promised, in bits/s; the NIC is nil for what no NIC is known to send.
type excess struct {
	*nic
	bits float64
}

// beyond lists who sends more than it is promised, most first, without those whose excess is no part of what is lacking worth naming.
// Nobody takes anything from others on a link that is not full.
func (p *party) beyond(lacks float64) (all []excess) {
	if !p.crowded {
		return nil
	}
	add := func(n *nic, bits float64) {
		if bits >= shortShare*lacks {
			all = append(all, excess{n, bits})
		}
	}
	for _, n := range p.nics {
		add(n, n.sent.Bits-float64(n.promised.Bits))
	}
	add(nil, p.uncounted)
	slices.SortStableFunc(all, func(a, b excess) int { return cmp.Compare(b.bits, a.bits) })
	return all
}

// say puts the shortage into words.
func (s *shortage) say(c *Core, p *party, all []excess) {
	var texts, remedies []string
	for i := range s.Takers {
		of := ""
		if i == 0 {
			of = fmt.Sprintf(" of the %s that %s carries", rough(p.carried), p.name)
		}
		texts = append(texts, c.takes(p, all[i], of))
		if r := s.Takers[i].Remedy; !slices.Contains(remedies, r) {
			remedies = append(remedies, r)
		}
	}
	switch more := all[len(s.Takers):]; {
	case len(all) == 0 && p.crowded:
		texts = []string{fmt.Sprintf("%s carries only %s, and nobody takes more of that than it is promised", p.name, rough(p.carried))}
		remedies = []string{"promise less; if its link always carries less than it says, set pfs[].speed in sluice.yaml"}
	case len(all) == 0:
		texts = []string{fmt.Sprintf("%s is not full, but allocator %s allows no more", p.name, c.opts.Allocator)}
		remedies = []string{"if that lasts, choose another with bandwidth.allocator in sluice.yaml"}
	case len(s.Takers) == mostTakers && len(more) > 0:
		sum := 0.0
		for _, e := range more {
			sum += e.bits
		}
		texts = append(texts, fmt.Sprintf("%d more take %s beyond what they are promised", len(more), rough(sum)))
	}
	s.have, s.Remedy = strings.Join(texts, "; "), strings.Join(remedies, "; ")
	s.Text = s.lack + ": " + s.have
}

// problem is the shortage as a Problem if it has lasted.
func (s *shortage) problem(subject string) []model.Problem {
	if s == nil || s.For < shortageLasts {
		return nil
	}
	return []model.Problem{{Subject: subject, Text: s.Text, Remedy: s.Remedy}}
}

// state is the Shortage as shown; nil: none.
func (s *shortage) state() *model.Shortage {
	if s == nil {
		return nil
	}
	return &s.Shortage
}

// explain adds the shortage to what is shown of a NIC that suffers it or is a Taker in it.
func (s *shortage) explain(v *model.NICBandwidth) {
	if s == nil {
		return
	}
	if v.Short > 0 {
		v.Why, v.Remedy = v.Why+"; "+s.have, s.Remedy
	}
	for i := range s.Takers {
		if t := &s.Takers[i]; t.NICID == v.NICID {
			v.Takes, v.Remedy = t.Beyond, t.Remedy
			v.Why += fmt.Sprintf("; it takes %s while %s", rough(t.Sent), s.lack)
		}
	}
}
