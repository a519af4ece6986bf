package observe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/control/claim"
	"sluice/internal/host/libvirt"
	"sluice/internal/model"
)

// Source makes Snapshots. Its methods are safe for concurrent use; Snapshots are made one at a time.
type Source struct {
	kernel  Kernel
	uplinks Uplinks
	domains Domains
	opt     Options
	pool    atomic.Pointer[Pool]
	stale   atomic.Bool // the inventory must be read again
	cancel  context.CancelFunc
	ctx     context.Context // ends with Close

	mu       sync.Mutex // guards the fields below
	askers   askers
	limits   *abilities
	watches  []<-chan struct{} // nil: not watching
	endWatch func()
	event    bool // the kernel or a switch reported a change
	inv      *inventory
	join     *joiner
	pairs    map[claim.Key]*pair
	claims   claims
	cpus     map[model.VMID]*vmCPU
	statsAt  time.Time       // when CPU times were last read
	counts   map[string]bool // PFs of unknown drivers that were seen to count
	numVFs   map[string]int  // as found when the pool was set
	numFor   *Pool           // the pool that numVFs belongs to
	others   []model.Problem // as Options.Others last found them
	othersAt time.Time
	tick     uint64
}

// New makes a Source. guests may be nil: then no guest is asked. Close ends it.
func New(k Kernel, up Uplinks, d Domains, guests Guests, o Options) *Source {
	s := &Source{
		kernel: k, uplinks: up, domains: d, opt: o.withDefaults(), join: newJoiner(up),
		pairs: map[claim.Key]*pair{}, claims: newClaims(), cpus: map[model.VMID]*vmCPU{}, counts: map[string]bool{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.askers = askers{guests: guests, opt: s.opt, ctx: s.ctx, byVM: map[model.VMID]*asker{}}
	s.limits = newAbilities(s.ctx, o.InGuest, s.opt.AskFor)
	s.SetPool(o.Pool)
	return s
}

// SetPool replaces the pool. The next Snapshot uses it, and takes the numbers of VFs that it finds as the intended ones.
func (s *Source) SetPool(p Pool) {
	s.pool.Store(&p)
	s.stale.Store(true)
}

// Invalidate makes the next Snapshot read everything again. Call it after each Step, so that the cache does not hide what it changed.
func (s *Source) Invalidate() { s.stale.Store(true) }

// Close stops asking guests and waits for questions in flight to end.
func (s *Source) Close() {
	s.cancel()
	s.askers.wg.Wait()
	s.limits.wg.Wait()
}

// Snapshot reads the state of the host. It fails if libvirt or the kernel cannot be queried, so that missing information is never taken for
// a change of state. No guest can delay it.
func (s *Source) Snapshot(ctx context.Context) (*model.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begin := time.Now()
	stats, err := s.stats(ctx, begin)
	if err != nil {
		return nil, fmt.Errorf("read the domains' statistics from libvirt: %w", err)
	}
	unread := s.domains.Unread() // before the others: what could be read meanwhile is among them
	domains, err := s.domains.Domains(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the domains from libvirt: %w", err)
	}
	links, err := s.kernel.Links(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the host's interfaces: %w", err)
	}
	now := time.Now() // the time of the counters
	s.join.index(links, domains)
	pool := s.pool.Load()
	if err := s.refresh(ctx, now, *pool); err != nil {
		return nil, err
	}
	s.noteNumVFs(pool)
	open, trouble := s.inv.inGuest(ctx, s.kernel, s.join.holders)
	w := world{now, s.inv, open, domains, *pool, s.opt.Failover, nil, s.opt.Measured}
	if s.opt.SetAside != nil {
		w.aside = s.opt.SetAside()
	}
	snap := s.join.join(w)
	snap.Unread = unread
	if snap.Read = s.inv.at; begin.Before(snap.Read) {
		snap.Read = begin
	}
	trouble = append(trouble, s.measure(ctx, snap, stats)...)
	trouble = append(trouble, s.limits.fill(snap)...)
	snap.Problems = s.problems(snap, *pool, trouble)
	return snap, nil
}

// stats reads CPU times and states when they are due: libvirt needs one query per domain, which is most of the cost of a Snapshot. In
// between, events report state changes.
func (s *Source) stats(ctx context.Context, now time.Time) (map[model.VMID]libvirt.Stat, error) {
	if age := now.Sub(s.statsAt); age >= 0 && age < s.opt.CPUEvery {
		return nil, nil
	}
	stats, err := s.domains.Stats(ctx)
	if err == nil {
		s.statsAt = now
	}
	return stats, err
}

// refresh reads the inventory if it is due.
func (s *Source) refresh(ctx context.Context, now time.Time, pool Pool) error {
	s.listen()
	if !s.due(now) {
		return nil
	}
	inv, err := read(ctx, s.kernel, s.uplinks, s.join.holders, pool, s.inv)
	if err != nil {
		s.stale.Store(true)
		return err
	}
	inv.problems = append(s.domains.Problems(), inv.problems...)
	s.inv, s.event = inv, false
	return nil
}

// noteNumVFs records how many VFs each PF has when a pool is new.
func (s *Source) noteNumVFs(pool *Pool) {
	if s.numFor == pool {
		return
	}
	s.numFor, s.numVFs = pool, make(map[string]int, len(s.inv.pfs))
	for i := range s.inv.pfs {
		s.numVFs[s.inv.pfs[i].Name] = s.inv.pfs[i].NumVFs
	}
}

// listen takes pending notifications of the kernel and the switches, and watches again after a watch broke. Without a watch, the inventory
// is at most as old as Recheck allows.
func (s *Source) listen() {
	if s.watches == nil {
		s.beginWatch()
		return
	}
	for _, w := range s.watches {
		select {
		case _, ok := <-w:
			s.event = true
			if !ok {
				s.endWatch()
				return
			}
		default:
		}
	}
}

func (s *Source) beginWatch() {
	ctx, end := context.WithCancel(s.ctx)
	s.endWatch, s.event = func() { end(); s.watches = nil }, true
	first, err := s.kernel.Watch(ctx)
	rest, failed := s.uplinks.Watch(ctx)
	if errors.Join(err, failed) != nil {
		s.endWatch()
		return
	}
	rest = append(rest, first)
	s.watches = rest
}

// due reports whether the inventory must be read, and clears a request to read it again.
func (s *Source) due(now time.Time) bool {
	stale := s.stale.Swap(false)
	if s.inv == nil || stale || !s.sameHolders() {
		return true
	}
	age := now.Sub(s.inv.at)
	return age < 0 || age >= s.opt.Recheck || s.event && age >= s.opt.Spacing
}

// sameHolders reports whether domains hold the same VFs as when the inventory was read.
func (s *Source) sameHolders() bool {
	n := 0
	for addr := range s.join.holders {
		if _, ok := s.inv.held[addr]; ok {
			n++
		} else if s.inv.isVF(addr) {
			return false
		}
	}
	return n == len(s.inv.held)
}
