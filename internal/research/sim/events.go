package sim

import (
	"container/heap"
	"time"
)

type event struct {
	at  time.Time
	seq uint64 // equal times keep their order
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if e[i].at.Equal(e[j].at) {
		return e[i].seq < e[j].seq
	}
	return e[i].at.Before(e[j].at)
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// At schedules do at a time of the world.
func (w *World) At(at time.Time, do func()) {
	w.seq++
	heap.Push(&w.queue, event{at: at, seq: w.seq, do: do})
}

// due reports whether an event is due by then.
func (w *World) due(until time.Time) bool {
	return len(w.queue) > 0 && !w.queue[0].at.After(until)
}

// next processes the next event.
func (w *World) next() {
	ev := heap.Pop(&w.queue).(event)
	if w.traffic != nil {
		w.pass(ev.at)
	}
	w.Now = ev.at
	ev.do()
	if w.traffic != nil {
		w.share()
	}
}
