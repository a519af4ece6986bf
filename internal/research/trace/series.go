package trace

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Series is what one VM moved. Times are in hundredths of a second from the Set's origin and rates in single precision, so that a week of
// 100 VMs at 1 s fits in half a gigabyte.
type Series struct {
	VM    string
	Cores int // the VM's CPUs; 0: not in the trace
	at    []int32
	pps   []float32
	bytes []float32 // nil: not in the trace
	cpu   []float32 // CPUs in use; nil: not in the trace
	gaps  []span
	step  int32 // usual spacing
	mess  bool  // there were rows out of order
}

// span is a stretch of time without data, its end not included.
type span struct{ from, to int32 }

// Set is a whole trace.
type Set struct {
	Series []*Series // in order of VM name, numbers by value
	Origin float64   // time of the first row, in the file's own seconds
	Length time.Duration
	Report Report

	hasBytes, hasCPU bool
}

// Known reports whether the trace has byte rates and CPU use.
func (s *Set) Known() (bytes, cpu bool) { return s.hasBytes, s.hasCPU }

// Point is one row of a Series.
type Point struct {
	At              time.Duration // from the Set's origin
	PPS, Bytes, CPU float64
}

// Point returns the i-th point.
func (s *Series) Point(i int) Point {
	p := Point{At: since(s.at[i]), PPS: float64(s.pps[i])}
	if s.bytes != nil {
		p.Bytes = float64(s.bytes[i])
	}
	if s.cpu != nil {
		p.CPU = float64(s.cpu[i])
	}
	return p
}

// Step is the usual time between two rows.
func (s *Series) Step() time.Duration { return since(s.step) }

// Span returns when the VM was there: from its first row until one usual spacing after its last.
func (s *Series) Span() (from, to time.Duration) {
	if len(s.at) == 0 {
		return 0, 0
	}
	return since(s.at[0]), since(s.at[len(s.at)-1]) + since(s.step)
}

const tick = 10 * time.Millisecond // resolution of times

func since(at int32) time.Duration { return time.Duration(at) * tick }

// Player plays a Series as a sim.Load. It is fastest when asked for rising times.
type Player struct {
	Series *Series
	Start  time.Time // the Set's origin
	next   int       // index of the first point after the last time asked
	gap    int
}

// At implements sim.Load: the rates of the last row at or before t; zero before the first row, within gaps and after the end.
func (p *Player) At(t time.Time) (pps, bytesPerSecond, cpus float64) {
	i, ok := p.seek(t)
	if !ok {
		return 0, 0, 0
	}
	pt := p.Series.Point(i)
	return pt.PPS, pt.Bytes, pt.CPU
}

// Known reports whether the trace has the load at t.
func (p *Player) Known(t time.Time) bool {
	_, ok := p.seek(t)
	return ok
}

// seek finds the row that applies at t.
func (p *Player) seek(t time.Time) (int, bool) {
	s := p.Series
	at := t.Sub(p.Start)
	if p.next > 0 && since(s.at[p.next-1]) > at { // backward in time
		p.next = sort.Search(len(s.at), func(i int) bool { return since(s.at[i]) > at })
		p.gap = 0
	}
	for p.next < len(s.at) && since(s.at[p.next]) <= at {
		p.next++
	}
	for p.gap < len(s.gaps) && since(s.gaps[p.gap].to) <= at {
		p.gap++
	}
	in := p.gap < len(s.gaps) && since(s.gaps[p.gap].from) <= at
	_, end := s.Span()
	return p.next - 1, p.next > 0 && !in && at < end
}

// finish sorts rows that were out of order, removes duplicates and finds gaps.
func (s *Series) finish(r *Report) {
	if s.mess {
		s.sort()
	}
	s.dedupe(r)
	s.step = s.spacing()
	for i := 1; i < len(s.at); i++ {
		if s.at[i]-s.at[i-1] > 3*s.step {
			s.gaps = append(s.gaps, span{s.at[i-1] + s.step, s.at[i]})
			r.add(KindGap, func() string {
				return "VM " + s.VM + " from " + since(s.at[i-1]).String() + " to " + since(s.at[i]).String()
			})
		}
	}
}

// sort orders the rows by time; rows with the same time keep their order in the file.
func (s *Series) sort() {
	order := make([]int, len(s.at))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.at[a], s.at[b]) })
	s.at = permute(s.at, order)
	s.pps, s.bytes, s.cpu = permute(s.pps, order), permute(s.bytes, order), permute(s.cpu, order)
}

func permute[T any](v []T, order []int) []T {
	if v == nil {
		return nil
	}
	out := make([]T, len(v))
	for i, j := range order {
		out[i] = v[j]
	}
	return out
}

// dedupe keeps the last of rows with the same time.
func (s *Series) dedupe(r *Report) {
	n := 0
	for i := range s.at {
		if i+1 < len(s.at) && s.at[i+1] == s.at[i] {
			r.add(KindDuplicate, func() string { return "VM " + s.VM + " at " + since(s.at[i]).String() })
			continue
		}
		s.set(n, i)
		n++
	}
	s.cut(n)
}

func (s *Series) set(to, from int) {
	s.at[to], s.pps[to] = s.at[from], s.pps[from]
	if s.bytes != nil {
		s.bytes[to] = s.bytes[from]
	}
	if s.cpu != nil {
		s.cpu[to] = s.cpu[from]
	}
}

func (s *Series) cut(n int) {
	s.at, s.pps = s.at[:n], s.pps[:n]
	if s.bytes != nil {
		s.bytes = s.bytes[:n]
	}
	if s.cpu != nil {
		s.cpu = s.cpu[:n]
	}
}

// spacing returns the median time between the first thousand rows.
func (s *Series) spacing() int32 {
	var d []int32
	for i := 1; i < min(len(s.at), 1001); i++ {
		d = append(d, s.at[i]-s.at[i-1])
	}
	if len(d) == 0 {
		return int32(time.Second / tick)
	}
	slices.Sort(d)
	return max(1, d[len(d)/2])
}

// compareNames orders names so that vm2 comes before vm10.
func compareNames(a, b string) int {
	pa, na := splitNumber(a)
	pb, nb := splitNumber(b)
	return cmp.Or(strings.Compare(pa, pb), cmp.Compare(na, nb), strings.Compare(a, b))
}

func splitNumber(s string) (string, int64) {
	p := strings.TrimRight(s, "0123456789")
	n, err := strconv.ParseInt(s[len(p):], 10, 64)
	if err != nil {
		return s, -1
	}
	return p, n
}
