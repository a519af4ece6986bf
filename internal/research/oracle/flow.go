package oracle

import "math"

// flow is the time-expanded graph and the flow on it. Boundary b lies before tick b. Each boundary has the node pool and, for every VM, the
// node held. Arcs and their gains:
//
//	held(b) -> held(b+1)   what the VM carries in tick b, at most one unit
//	pool(b) -> held(b)     minus the price of a plug (nothing at boundary 0)
//	held(b) -> pool(b)     0
//	pool(b) -> pool(b+1)   0
//
// Units enter at pool(0) and leave at pool(T). Each augmentation sends one more unit along the path of largest gain in the residual graph,
// so after n augmentations the flow is the best one of n units (successive shortest paths). Gains are integers: comparisons are exact, and
// rounding cannot make a cycle gain.
//
// The layers make a plain label-correcting search fast: one pass forward in time and one backward settle all paths except those that change
// direction in time, and boundaries without changes are skipped.
type flow struct {
	m, t int
	gain []int64 // tick*m + vm
	plug []int64 // boundary*m + vm: price of a plug there
	held []bool  // tick*m + vm: a unit is there
	edge []uint8 // boundary*m + vm: plugged, unplugged or 0
	idle []int   // by tick: units in the pool

	pool, vm         []int64 // largest gains from pool(0)
	fromPool, fromVM []int32 // how these were reached
	ahead, behind    []bool  // boundaries to relax forward and backward
}

// How a node was reached. Values >= 0 in fromPool are the VM whose unplug led there.
const (
	viaPast   int32 = -1 - iota // along the arc from the boundary before
	viaFuture                   // against the arc to the boundary after
	viaPool                     // fromVM only
)

const never = math.MinInt64 / 4

// What the flow does with a VM at a boundary, which an augmentation can undo.
const (
	plugged uint8 = 1 + iota
	unplugged
)

func newFlow(m, t int, gain, plug []int64) *flow {
	return &flow{
		m: m, t: t, gain: gain, plug: plug, held: make([]bool, m*t), edge: make([]uint8, m*(t+1)), idle: make([]int, t),
		pool: make([]int64, t+1), vm: make([]int64, (t+1)*m),
		fromPool: make([]int32, t+1), fromVM: make([]int32, (t+1)*m),
		ahead: make([]bool, t+1), behind: make([]bool, t+1),
	}
}

// augment sends one more unit if that gains anything, and reports whether it did.
func (f *flow) augment() bool {
	f.search()
	if f.pool[f.t] <= 0 {
		return false // the unit would stay in the pool
	}
	for i := range f.idle {
		f.idle[i]++ // as if in the pool all along; apply takes it out
	}
	f.apply()
	return true
}

// search finds the largest gains from pool(0) to every node.
func (f *flow) search() {
	for i := range f.vm {
		f.vm[i] = never
	}
	for b := range f.pool {
		f.pool[b], f.ahead[b], f.behind[b] = never, false, false
	}
	f.pool[0], f.ahead[0], f.behind[0] = 0, true, true
	for changed := true; changed; {
		changed = false
		for b := 0; b <= f.t; b++ {
			if f.ahead[b] {
				f.ahead[b] = false
				f.settle(b)
				f.forward(b)
				changed = true
			}
		}
		for b := f.t; b >= 0; b-- {
			if f.behind[b] {
				f.behind[b] = false
				f.settle(b)
				f.backward(b)
				changed = true
			}
		}
	}
}

// settle relaxes the arcs within a boundary: into the pool, then out of it.
func (f *flow) settle(b int) {
	lo, hi := b*f.m, (b+1)*f.m
	vm, edge, plug := f.vm[lo:hi], f.edge[lo:hi], f.plug[lo:hi]
	best, who := f.pool[b], int32(-1)
	for i, d := range vm {
		if edge[i] == plugged {
			d += plug[i] // undoes the plug
		}
		if d > best {
			best, who = d, int32(i)
		}
	}
	if who >= 0 {
		f.pool[b], f.fromPool[b] = best, who
	}
	if f.share(b, best) || who >= 0 {
		f.ahead[b], f.behind[b] = true, true
	}
}

// share relaxes the arcs out of the pool, which is reached with gain best, and reports whether anything changed.
func (f *flow) share(b int, best int64) (touched bool) {
	lo, hi := b*f.m, (b+1)*f.m
	vm, edge, plug := f.vm[lo:hi], f.edge[lo:hi], f.plug[lo:hi]
	for i, d := range vm {
		out := best - plug[i]
		if edge[i] == unplugged {
			out = best // undoes the unplug
		}
		if out > d {
			vm[i], f.fromVM[lo+i] = out, viaPool
			touched = true
		}
	}
	return touched
}

func (f *flow) forward(b int) {
	f.ahead[b] = false // settle may have set it again; its changes are used here
	if b == f.t {
		return
	}
	touched := false
	if f.pool[b] > f.pool[b+1] {
		f.pool[b+1], f.fromPool[b+1] = f.pool[b], viaPast
		touched = true
	}
	here, next := f.vm[b*f.m:(b+1)*f.m], f.vm[(b+1)*f.m:(b+2)*f.m]
	from, gain, held := f.fromVM[(b+1)*f.m:(b+2)*f.m], f.gain[b*f.m:(b+1)*f.m], f.held[b*f.m:(b+1)*f.m]
	for i, d := range here {
		if !held[i] && d+gain[i] > next[i] {
			next[i], from[i] = d+gain[i], viaPast
			touched = true
		}
	}
	if touched {
		f.ahead[b+1], f.behind[b+1] = true, true
	}
}

func (f *flow) backward(b int) {
	f.behind[b] = false
	if b == 0 {
		return
	}
	touched := false
	if f.idle[b-1] > 0 && f.pool[b] > f.pool[b-1] {
		f.pool[b-1], f.fromPool[b-1] = f.pool[b], viaFuture
		touched = true
	}
	here, last := f.vm[b*f.m:(b+1)*f.m], f.vm[(b-1)*f.m:b*f.m]
	from, gain, held := f.fromVM[(b-1)*f.m:b*f.m], f.gain[(b-1)*f.m:b*f.m], f.held[(b-1)*f.m:b*f.m]
	for i, d := range here {
		if held[i] && d-gain[i] > last[i] {
			last[i], from[i] = d-gain[i], viaFuture
			touched = true
		}
	}
	if touched {
		f.ahead[b-1], f.behind[b-1] = true, true
	}
}

// apply follows the path back from pool(T) and changes the flow along it.
func (f *flow) apply() {
	b, i := f.t, -1 // i < 0: in the pool
	for b > 0 || i >= 0 {
		how := f.fromPool[b]
		if i >= 0 {
			how = f.fromVM[b*f.m+i]
		}
		switch {
		case i >= 0 && how == viaPool:
			i = -1
		case how >= 0:
			i = int(how)
		case how == viaPast:
			b--
			f.carry(b, i, true)
		default:
			f.carry(b, i, false)
			b++
		}
	}
}

// carry puts a unit on a VM's arc in tick b or removes it. There is nothing to do for the pool: idle counts what no VM has.
func (f *flow) carry(b, i int, on bool) {
	if i < 0 {
		return
	}
	f.held[b*f.m+i] = on
	if on {
		f.idle[b]--
	} else {
		f.idle[b]++
	}
	f.mark(b, i)
	f.mark(b+1, i)
}

// mark updates edge for a VM at a boundary.
func (f *flow) mark(b, i int) {
	before := b > 0 && f.held[(b-1)*f.m+i]
	after := b < f.t && f.held[b*f.m+i]
	e := uint8(0)
	switch {
	case after && !before:
		e = plugged
	case before && !after:
		e = unplugged
	}
	f.edge[b*f.m+i] = e
}
