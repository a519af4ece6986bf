package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/host/vf"
	"sluice/internal/model"
)

// inventory holds what changes rarely and costs more to read. It is immutable and replaced as a whole.
type inventory struct {
	at       time.Time
	pfs      []vf.PFInfo
	vfs      map[model.PCIAddress]model.VFID // every VF that exists
	routes   map[address][]model.Route
	held     map[model.PCIAddress]bool      // VFs that domains held
	foreign  map[model.PCIAddress]time.Time // pool VFs that are open although no domain holds them, and since when
	seen     map[model.PCIAddress]bool      // VFs that are held, or are in the pool and whose open state has been read at least once
	problems []model.Problem
}

// address is the key of a switch's forwarding table.
type address struct {
	mac     model.MAC
	network string
}

// read makes a new inventory; old tells since when VFs have been open outside of any domain.
func read(ctx context.Context, k Kernel, up Uplinks, held map[model.PCIAddress]holder, pool Pool, old *inventory) (*inventory, error) {
	inv := &inventory{at: time.Now()}
	var err error
	if inv.pfs, err = k.PFs(ctx); err != nil {
		return nil, fmt.Errorf("read PFs: %w", err)
	}
	inv.vfs = map[model.PCIAddress]model.VFID{}
	for i := range inv.pfs {
		for j := range inv.pfs[i].VFs {
			inv.vfs[inv.pfs[i].VFs[j].Address] = inv.pfs[i].VFs[j].ID
		}
	}
	routes, err := up.Routes(ctx)
	if err != nil {
		return nil, fmt.Errorf("read where switches send frames: %w", err)
	}
	inv.routes = make(map[address][]model.Route, len(routes))
	for _, r := range routes {
		at := address{r.MAC, r.Network}
		inv.routes[at] = append(inv.routes[at], r)
	}
	inv.readOpen(ctx, k, held, pool, old)
	return inv, ctx.Err()
}

// readOpen finds the VFs of the pool that are open although no domain holds them. If that cannot be read it stays unknown. VFs that are
// held are checked at every Snapshot; see inGuest.
func (inv *inventory) readOpen(ctx context.Context, k Kernel, held map[model.PCIAddress]holder, pool Pool, old *inventory) {
	inv.held = make(map[model.PCIAddress]bool, len(held))
	inv.foreign, inv.seen = map[model.PCIAddress]time.Time{}, map[model.PCIAddress]bool{}
	for i := range inv.pfs {
		for j := range inv.pfs[i].VFs {
			vf := &inv.pfs[i].VFs[j]
			if _, isHeld := held[vf.Address]; isHeld {
				inv.held[vf.Address], inv.seen[vf.Address] = true, true
				continue
			}
			if !pool.Has(vf.ID) {
				continue
			}
			before := old != nil && old.seen[vf.Address]
			inv.seen[vf.Address] = true
			if !strings.Contains(vf.Driver, "vfio") {
				continue // only the host can use it
			}
			open, err := k.DriverOpen(ctx, vf.Address)
			inv.seen[vf.Address] = before || err == nil && open != model.Unknown
			switch {
			case err != nil && !errors.Is(err, model.ErrGone):
				inv.problems = append(inv.problems, cannotTell(vf.ID, err))
			case open == model.Yes:
				inv.foreign[vf.Address] = since(inv.at, before, old, vf.Address)
			}
		}
	}
}

func cannotTell(vf model.VFID, err error) model.Problem {
	return model.Problem{Subject: vf.String(), Text: "cannot tell whether a guest uses it: " + err.Error()}
}

// inGuest finds which of the VFs held by domains are open in their guests. The state changes within microseconds of the guest's action, and
// a guest that releases its VF receives no frames until the host knows.
func (inv *inventory) inGuest(ctx context.Context, k Kernel, held map[model.PCIAddress]holder,
) (map[model.PCIAddress]model.Tri, []model.Problem) {
	open := make(map[model.PCIAddress]model.Tri, len(held))
	var trouble []model.Problem
	for addr := range held {
		vf, ok := inv.vfs[addr]
		if !ok {
			continue
		}
		is, err := k.DriverOpen(ctx, addr)
		switch {
		case err == nil:
			open[addr] = is
		case !errors.Is(err, model.ErrGone):
			trouble = append(trouble, cannotTell(vf, err))
		}
	}
	slices.SortFunc(trouble, bySubject)
	return open, trouble
}

// since returns when a VF that is open outside of any domain was opened. One that was already open at the first reading is not about to
// appear in a domain, so it counts as open for foreignAfter.
func since(now time.Time, before bool, old *inventory, vf model.PCIAddress) time.Time {
	if !before {
		return now.Add(-foreignAfter)
	}
	if was, ok := old.foreign[vf]; ok {
		return was
	}
	return now
}

// isVF reports whether a PCI device is a VF of one of the PFs.
func (inv *inventory) isVF(addr model.PCIAddress) bool {
	_, ok := inv.vfs[addr]
	return ok
}

// openFor returns how long a VF has been open without a domain.
func (inv *inventory) openFor(addr model.PCIAddress, now time.Time) time.Duration {
	since, ok := inv.foreign[addr]
	if !ok {
		return 0
	}
	return now.Sub(since)
}

// route returns where a switch sends a MAC's frames; Port is "" if it has no entry. Of several entries, the one of the NIC's VLAN takes
// precedence, then the one without VLAN.
func (inv *inventory) route(mac model.MAC, network string, vlan int) model.Route {
	routes := inv.routes[address{mac, network}]
	if len(routes) == 0 {
		return model.Route{}
	}
	best := routes[0]
	for _, r := range routes[1:] {
		if r.VLAN == vlan || r.VLAN == 0 && best.VLAN != vlan {
			best = r
		}
	}
	return best
}
