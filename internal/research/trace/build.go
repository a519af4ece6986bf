package trace

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Options say how to read a trace.
type Options struct {
	// PacketSize is the mean bytes of a packet, for traces that count bytes only; 0: 600.
	PacketSize float64
	// LineRate is that of the fastest link possible, in bits/s; 0: 400e9. Rows above what it carries in both directions together are absurd.
	LineRate float64
	// MaxPoints bounds memory: a file with more rows is refused; 0: 100 million.
	MaxPoints int
	// Progress, when set, is called with the number of rows read, every million.
	Progress func(rows int)
}

// DefaultPacketSize is used for traces without packet counts. It lies between the 40 to 100 bytes of acknowledgements and the 1,500 of
// bulk transfers.
const DefaultPacketSize = 600

func (o Options) filled() Options {
	if !(o.PacketSize > 0) {
		o.PacketSize = DefaultPacketSize
	}
	if !(o.LineRate > 0) {
		o.LineRate = 400e9
	}
	o.MaxPoints = cmp.Or(max(0, o.MaxPoints), 100e6)
	return o
}

// wireMin is the size of the shortest frame on the wire in bits: 64 bytes, preamble and gap.
const wireMin = 84 * 8

// maxVMs bounds the VMs of one trace: far above any host, far below what exhausts memory.
const maxVMs = 100_000

// row is one row of any format, in common units.
type row struct {
	time            float64 // seconds
	vm              string
	pps, bytes, cpu float64
	cores           float64 // 0: unknown
}

// builder collects rows into a Set.
type builder struct {
	opts   Options
	set    *Set
	byName map[string]*Series
	points int
	begun  bool
}

func newBuilder(file, format string, o Options) *builder {
	return &builder{
		opts:   o.filled(),
		set:    &Set{Report: Report{File: file, Format: format}},
		byName: map[string]*Series{},
	}
}

// absurd returns why a row cannot be true; "" when it can.
func (b *builder) absurd(r *row) string {
	for _, f := range []struct {
		x    float64
		name string
		most float64
	}{
		{r.pps, "packets/s", 2 * b.opts.LineRate / wireMin},
		{r.bytes, "bytes/s", 2 * b.opts.LineRate / 8},
		{r.cpu, "CPUs", 1e5},
	} {
		switch {
		case math.IsNaN(f.x) || math.IsInf(f.x, 0):
			return f.name + " not finite"
		case f.x < 0:
			return f.name + " negative"
		case f.x > f.most:
			return fmt.Sprintf("%.3g %s", f.x, f.name)
		}
	}
	if math.IsNaN(r.time) || math.IsInf(r.time, 0) {
		return "time not finite"
	}
	return ""
}

// add takes a row; place returns its place in the file.
func (b *builder) add(r row, place func() string) error {
	rep := &b.set.Report
	rep.Rows++
	if b.opts.Progress != nil && rep.Rows%1e6 == 0 {
		b.opts.Progress(rep.Rows)
	}
	if why := b.absurd(&r); why != "" {
		rep.add(KindAbsurd, func() string { return place() + ": " + why })
		return nil
	}
	if !b.begun {
		b.begun, b.set.Origin = true, r.time
	}
	at := math.Round((r.time - b.set.Origin) / tick.Seconds())
	if math.Abs(at) > math.MaxInt32/4 {
		return fmt.Errorf("a row is %.0f days from the first one; cut the trace to less than %d days",
			math.Abs(r.time-b.set.Origin)/86400, int64(math.MaxInt32)/4*int64(tick)/int64(24*time.Hour))
	}
	s := b.byName[r.vm]
	if s == nil {
		if len(b.byName) >= maxVMs {
			return fmt.Errorf("more than %d VMs; is the vm column right?", maxVMs)
		}
		s = &Series{VM: strings.Clone(r.vm)}
		b.byName[s.VM] = s
	}
	if b.points++; b.points > b.opts.MaxPoints {
		return fmt.Errorf("more than %d rows; cut the trace or average it over longer samples", b.opts.MaxPoints)
	}
	b.push(s, int32(at), r, place)
	return nil
}

// push appends a row to its Series, or replaces the last one if it has the same time.
func (b *builder) push(s *Series, at int32, r row, place func() string) {
	n := len(s.at)
	switch {
	case n > 0 && at == s.at[n-1]:
		b.set.Report.add(KindDuplicate, place)
		s.cut(n - 1)
	case n > 0 && at < s.at[n-1]:
		b.set.Report.add(KindOrder, place)
		s.mess = true
	}
	s.Cores = max(s.Cores, int(min(r.cores, 1e5)))
	s.at, s.pps = append(s.at, at), append(s.pps, float32(r.pps))
	if b.set.hasBytes {
		s.bytes = append(s.bytes, float32(r.bytes))
	}
	if b.set.hasCPU {
		s.cpu = append(s.cpu, float32(r.cpu))
	}
}

// done completes the Set: everything in order, times from the first row.
func (b *builder) done() (*Set, error) {
	set := b.set
	set.Series = slices.SortedFunc(maps.Values(b.byName), func(x, y *Series) int { return compareNames(x.VM, y.VM) })
	set.Report.VMs = len(set.Series)
	if len(set.Series) == 0 {
		return nil, &Error{File: set.Report.File, Text: "no usable row", Remedy: "see docs/sim.md for the formats"}
	}
	first := int32(math.MaxInt32)
	for _, s := range set.Series {
		s.finish(&set.Report)
		first = min(first, s.at[0])
	}
	for _, s := range set.Series {
		s.shift(first)
		_, end := s.Span()
		set.Length = max(set.Length, end)
	}
	set.Origin += since(first).Seconds()
	return set, nil
}

// shift moves the origin: rows out of order may precede the first one read.
func (s *Series) shift(by int32) {
	if by == 0 {
		return
	}
	for i := range s.at {
		s.at[i] -= by
	}
	for i := range s.gaps {
		s.gaps[i].from -= by
		s.gaps[i].to -= by
	}
}
