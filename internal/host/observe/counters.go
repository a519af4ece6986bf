package observe

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/host/counters"
	"sluice/internal/host/netdev"
	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// CounterReader reads counters only, into buffers of the caller.
type CounterReader interface {
	Links(ctx context.Context, buf []netdev.LinkStats) ([]netdev.LinkStats, error)
	VFs(ctx context.Context, pf string, index int, buf []vf.Counters) ([]vf.Counters, error)
	Port(ctx context.Context, pf string, index int) (netdev.Counters, error)
}

var _ CounterReader = (*counters.Reader)(nil)

// Count holds the counters of one path of a NIC, as the guest sees it: rx is what it receives. When Device differs from that of the
// previous Count, counting restarts. A Count without VM is of the port of the PF that NIC.NIC names: tx is what left the host there.
type Count struct {
	NIC       model.NICID
	VF        model.VFID // NoVF: the virtio path
	Device    int        // ifindex of the tap, of the VF's representor, or else of its PF
	At        time.Time  // when it was read
	RxPackets uint64
	TxPackets uint64
	RxBytes   uint64
	TxBytes   uint64
}

// Counters reads the counters of VMs' NICs many times a second, for controllers that run more often than Snapshots are taken. It reads no
// inventory and waits for none: Follow tells it which taps and VFs belong to which NICs. Its methods are safe for concurrent use.
type Counters struct {
	reader CounterReader
	whose  atomic.Pointer[whose]

	mu    sync.Mutex // guards the buffers
	links []netdev.LinkStats
	vfs   []vf.Counters
	mute  map[int]time.Time // by ifindex of the PF: when its port last could not be read
}

// muteFor is how long a port is skipped after it could not be read: most drivers that lack these counters never provide them.
const muteFor = time.Minute

// whose maps devices to NICs. It is replaced as a whole.
type whose struct {
	taps  map[int]model.NICID // by ifindex
	reps  map[int]whoseVF     // representors, by ifindex
	pfs   []whosePF
	ports []whosePF // PFs with VFs in guests that have no counters of their own: only the port counts their traffic
}

// whoseVF is a VF behind a NIC.
type whoseVF struct {
	nic model.NICID
	vf  model.VFID
	own bool // the representor counts as the VF does
}

// whosePF is a PF that counts per VF. nics is indexed by VF; an entry without VM is a VF behind no NIC.
type whosePF struct {
	name  string
	index int
	nics  []model.NICID
}

// NewCounters returns Counters that follow no device yet.
func NewCounters(r CounterReader) *Counters {
	c := &Counters{reader: r, mute: map[int]time.Time{}}
	c.whose.Store(&whose{})
	return c
}

// Follow takes the mapping of devices to NICs from a Snapshot. Call it with each new one; it does not wait for a Read. VFs of drivers that
// do not count per VF are left out.
func (c *Counters) Follow(s *model.Snapshot) {
	w := &whose{taps: make(map[int]model.NICID, len(s.VMs)), reps: map[int]whoseVF{}}
	place := map[string]int{}
	for vm, n := range s.NICs() {
		id := model.NICID{VM: vm.ID, NIC: n.Alias}
		if n.TapIndex > 0 {
			w.taps[n.TapIndex] = id
		}
		switch pf := s.FindPF(n.VF.PF); {
		case pf == nil:
		case pf.Uplink.Representors:
			if held := s.FindVF(n.VF); held != nil && held.PortIndex > 0 {
				w.reps[held.PortIndex] = whoseVF{id, n.VF, vf.OwnCounters(pf.Driver)}
			}
		case countsVFs(pf, n):
			w.pf(place, pf).nics[n.VF.Index] = id
		case !slices.ContainsFunc(w.ports, func(p whosePF) bool { return p.index == pf.Index }):
			w.ports = append(w.ports, whosePF{name: pf.Name, index: pf.Index})
		}
	}
	c.whose.Store(w)
}

// countsVFs reports whether a NIC's VF has counters: its driver is known to count, or has been seen to.
func countsVFs(pf *model.PF, n *model.NIC) bool {
	return n.VF.Index < pf.NumVFs && (pf.Caps.VFCounters == model.Yes || n.VFPath.Source == model.SourcePF)
}

// pf returns the entry of a PF and creates it if needed; place maps PF names to indices in w.pfs.
func (w *whose) pf(place map[string]int, pf *model.PF) *whosePF {
	i, ok := place[pf.Name]
	if !ok {
		i = len(w.pfs)
		place[pf.Name] = i
		w.pfs = append(w.pfs, whosePF{name: pf.Name, index: pf.Index, nics: make([]model.NICID, pf.NumVFs)})
	}
	return &w.pfs[i]
}

// Read appends the counts of all NICs to buf, which may be nil: first the virtio paths, then the VFs, then the ports. Counts that cannot
// be read are missing, and the error says why.
func (c *Counters) Read(ctx context.Context, buf []Count) ([]Count, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.whose.Load()
	links, err := c.reader.Links(ctx, c.links[:0])
	c.links = links
	now := time.Now()
	for i := range links {
		if nic, ok := w.taps[links[i].Index]; ok {
			t := hostCounts(links[i].Counters).swapped()
			buf = append(buf, Count{nic, model.NoVF, links[i].Index, now, t.rxPackets, t.txPackets, t.rxBytes, t.txBytes})
		}
	}
	for i := range links {
		if at, ok := w.reps[links[i].Index]; ok {
			t := hostCounts(links[i].Counters)
			if !at.own {
				t = t.swapped()
			}
			buf = append(buf, Count{at.nic, at.vf, links[i].Index, now, t.rxPackets, t.txPackets, t.rxBytes, t.txBytes})
		}
	}
	for i := range w.pfs {
		p := &w.pfs[i]
		vfs, failed := c.reader.VFs(ctx, p.name, p.index, c.vfs[:0])
		c.vfs, err, now = vfs, errors.Join(err, failed), time.Now()
		for k := range vfs {
			v := &vfs[k]
			if v.VF < len(p.nics) && p.nics[v.VF].VM != "" {
				id := model.VFID{PF: p.name, Index: v.VF}
				buf = append(buf, Count{p.nics[v.VF], id, p.index, now, v.RxPackets, v.TxPackets, v.RxBytes, v.TxBytes})
			}
		}
	}
	for i := range w.ports {
		buf = c.port(ctx, &w.ports[i], buf)
	}
	return buf, err
}

// port appends the counts of a PF's port. A read failure is not an error: port counts only serve to detect false claims.
func (c *Counters) port(ctx context.Context, p *whosePF, buf []Count) []Count {
	now := time.Now()
	if failed, ok := c.mute[p.index]; ok && now.Sub(failed) < muteFor {
		return buf
	}
	n, err := c.reader.Port(ctx, p.name, p.index)
	if err != nil {
		c.mute[p.index] = now
		return buf
	}
	delete(c.mute, p.index)
	return append(buf, Count{model.NICID{NIC: p.name}, model.NoVF, p.index, now, n.RxPackets, n.TxPackets, n.RxBytes, n.TxBytes})
}
