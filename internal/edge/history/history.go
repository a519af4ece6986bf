package history

import (
	"math"
	"slices"
	"sync"
	"time"

	"sluice/api/v1"
	"sluice/internal/control/events"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// Limits on what is kept.
const (
	Step        = answer.HistoryStep
	Hour        = 360  // steps
	MaxVMs      = 2000 // per step; later ones have no values
	maxPFs      = 256  // per step
	maxMoves    = 1000 // about 2 kB each
	maxHoldings = 2000 // that have ended
	maxEvents   = 5000 // about 300 bytes each
	figuresOfVM = 3    // packets/s on virtio and on VFs, bytes/s
)

// Memory holds the last hour, and the last events. It is safe for concurrent use; create it with New.
type Memory struct {
	mu sync.Mutex // held only to add a View or to copy some pointers

	revision uint64
	at       time.Time // of the last Snapshot; zero: none yet
	columns  []*column // of complete steps with Snapshots, oldest first
	vms, pfs gatherer  // the current step
	now      []*key    // the VMs of the last Snapshot, sorted by id
	capacity map[string]uint64

	held     map[model.VFID]*api.Holding
	holdings []*api.Holding    // ended, sorted by end
	moves    []*api.MoveRecord // sorted by ID
	ended    uint64            // ID of the move that ended last
	dropped  int

	watcher events.Watcher
	events  []model.Event // however old
	// Examine finds problems in a Snapshot, to be told as events; nil: only those that the Snapshot has.
	Examine answer.Examine
	// Tell, if set, is called with each event. It must not call the Memory.
	Tell func(*model.Event)
}

// New returns an empty Memory.
func New() *Memory {
	return &Memory{
		vms: gatherer{width: figuresOfVM, most: MaxVMs}, pfs: gatherer{width: 1, most: maxPFs},
		capacity: map[string]uint64{}, held: map[model.VFID]*api.Holding{},
	}
}

// Add adds a View, which must be newer than those before it.
func (m *Memory) Add(v *model.View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision = v.Revision
	m.noteEvents(v)
	if s := v.Snapshot; s != nil && m.newer(s.Time.Round(0)) {
		m.closeStep(s.Time)
		m.at = s.Time.Round(0) // wall-clock time, like the steps
		m.noteLoads(s)
		m.noteLinks(v)
		m.noteHoldings(s)
	}
	if m.noteMoves(v); !m.at.IsZero() {
		m.forget()
	}
}

// newer reports whether to accept a Snapshot taken at t: if it is later than the last, or so much earlier that the clock
// must have been set back.
func (m *Memory) newer(t time.Time) bool { return t.After(m.at) || m.at.Sub(t) > Step }

func stepOf(t time.Time) int64      { return t.Unix() / int64(Step/time.Second) }
func beginOf(step int64) time.Time  { return time.Unix(step*int64(Step/time.Second), 0).UTC() }
func (m *Memory) oldest() time.Time { return beginOf(stepOf(m.at) - Hour) }

// closeStep closes the current step if t is in a later one.
func (m *Memory) closeStep(t time.Time) {
	if m.at.IsZero() || stepOf(t) == stepOf(m.at) {
		return
	}
	var last column
	if n := len(m.columns); n > 0 {
		last = *m.columns[n-1]
	}
	m.columns = append(m.columns, &column{step: stepOf(m.at), vms: m.vms.close(last.vms.keys), pfs: m.pfs.close(last.pfs.keys)})
	// Columns at or after t are from before the clock was set back, and would be out of order.
	m.columns = slices.DeleteFunc(m.columns, func(c *column) bool { return c.step >= stepOf(t) })
}

// noteLoads records what the VMs move.
func (m *Memory) noteLoads(s *model.Snapshot) {
	nets := answer.Networks(s)
	m.vms.next = 0
	for i := range s.VMs {
		vm := &s.VMs[i]
		virtio, vf, bytes := loadOf(vm, nets)
		m.vms.add(string(vm.ID), vm.Name, virtio, vf, bytes)
	}
	if !slices.EqualFunc(m.now, s.VMs, func(k *key, vm model.VM) bool { return k.id == string(vm.ID) && k.name == vm.Name }) {
		m.now = make([]*key, len(s.VMs))
		for i := range s.VMs {
			m.now[i] = &key{string(s.VMs[i].ID), s.VMs[i].Name}
		}
	}
}

// loadOf returns what a VM moves on the NICs that may have a VF, or on all if none may: NaN if unknown.
func loadOf(vm *model.VM, nets map[string]bool) (virtio, vf, bytes float64) {
	all := !slices.ContainsFunc(vm.NICs, func(n model.NIC) bool { return answer.MayHaveVF(&n, nets) })
	for i := range vm.NICs {
		n := &vm.NICs[i]
		if !all && !answer.MayHaveVF(n, nets) {
			continue
		}
		pps, b := onPath(&n.Virtio)
		virtio, bytes = virtio+pps, bytes+b
		if n.VF != model.NoVF {
			pps, b = onPath(&n.VFPath)
			vf, bytes = vf+pps, bytes+b
		}
	}
	return virtio, vf, bytes
}

func onPath(t *model.Traffic) (pps, bytes float64) {
	if !t.Known {
		return math.NaN(), math.NaN()
	}
	return t.RxPPS + t.TxPPS, t.RxBytes + t.TxBytes
}

// noteLinks records what the links carry.
func (m *Memory) noteLinks(v *model.View) {
	if v.Bandwidth == nil {
		return
	}
	m.pfs.next = 0
	for i := range v.Bandwidth.Links {
		l := &v.Bandwidth.Links[i]
		m.pfs.add(l.PF, l.PF, v.Carried(l))
		m.capacity[l.PF] = l.Carries.Bits
	}
}

// noteHoldings records who holds which VF.
func (m *Memory) noteHoldings(s *model.Snapshot) {
	seen := 0
	for i := range s.PFs {
		for k := range s.PFs[i].VFs {
			vf := &s.PFs[i].VFs[k]
			if vf.Owner == model.OwnerFree || vf.Owner == "" {
				continue
			}
			seen++
			old := m.held[vf.ID]
			if old != nil && old.ID == string(vf.Holder) && old.Owner == string(vf.Owner) {
				continue
			}
			m.release(vf.ID, s.Time)
			h := &api.Holding{VF: vf.ID.String(), PF: vf.ID.PF, ID: string(vf.Holder), Owner: string(vf.Owner), From: s.Time}
			if vm := s.FindVM(vf.Holder); vm != nil {
				h.VM = vm.Name
			}
			m.held[vf.ID] = h
		}
	}
	if seen == len(m.held) {
		return
	}
	for id := range m.held {
		if vf := s.FindVF(id); vf == nil || vf.Owner == model.OwnerFree || vf.Owner == "" {
			m.release(id, s.Time)
		}
	}
}

// release ends a holding. Readers may have the record, so it is replaced, not changed.
func (m *Memory) release(id model.VFID, now time.Time) {
	if old := m.held[id]; old != nil {
		ended := *old
		ended.To = now
		m.holdings = append(m.holdings, &ended)
		delete(m.held, id)
	}
}

// forget drops what is older than an hour, and the oldest entries beyond the limits. Readers have copies of the lists.
func (m *Memory) forget() {
	old := m.oldest()
	m.columns = slices.DeleteFunc(m.columns, func(c *column) bool { return c.step < stepOf(old) })
	m.holdings = slices.DeleteFunc(m.holdings, func(h *api.Holding) bool { return !h.To.After(old) })
	m.holdings = slices.Delete(m.holdings, 0, max(0, len(m.holdings)-maxHoldings))
	m.moves = slices.DeleteFunc(m.moves, func(r *api.MoveRecord) bool { return ended(r) && !r.Move.Ended.After(old) })
	for excess := len(m.moves) - maxMoves; excess > 0; excess-- {
		at := slices.IndexFunc(m.moves, ended)
		if at < 0 {
			return
		}
		m.moves = slices.Delete(m.moves, at, at+1)
		m.dropped++
	}
}

func ended(r *api.MoveRecord) bool { return !r.Move.Ended.IsZero() }
