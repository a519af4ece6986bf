package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"

	"sluice/internal/host/htb"
	"sluice/internal/host/tap"
	"sluice/internal/model"
)

// treeName is the pseudo-allocator with which an HTB tree on an ifb before the bridge divides the link. Only the tree's total rate
// comes from waterfill, which sees the tree as its only sender.
const treeName = "tree"

// tree is the HTB tree of all guests of a scenario.
type tree struct {
	bed    *bed
	shaper htb.Shaper
}

// newTree creates the tree and redirects the guests' ports through it.
func newTree(b *bed, sc *scenario) (*tree, error) {
	up, err := net.InterfaceByName(uplinkDev)
	if err != nil {
		return nil, err
	}
	t := &tree{bed: b, shaper: htb.Shaper{PF: up.Index, Queue: uplinkFIFO}}
	rates := make([]float64, len(sc.guests))
	sc.promised(treeShare*linkBits, rates)
	var macs []model.MAC
	for i, r := range rates {
		t.shaper.Classes = append(t.shaper.Classes, htb.ShaperClass{
			ID: uint16(i + 2), Rate: uint64(max(r, leastClass)), Ceil: linkBits,
			Quantum: 2 * segmentWire,
		})
		mac, err := model.ParseMAC(guestMAC(i))
		if err != nil {
			return nil, err
		}
		macs = append(macs, mac)
	}
	if err := b.host.SetLocalMACs(context.Background(), macs); err != nil {
		return nil, err
	}
	return t, errors.Join(t.set(0, treeShare*linkBits), t.renew())
}

const (
	treeShare  = .99 // guaranteed at most: the rest keeps guests without a guarantee alive
	leastClass = 8000
)

// set limits the whole tree to bits/s.
func (t *tree) set(_ int, bits float64) error {
	t.shaper.Rate = uint64(min(bits, handedOut*linkBits))
	now, err := t.bed.host.SetShaper(context.Background(), t.shaper)
	t.shaper.Device = now.Device
	return err
}

// renew renews the leases of the ports.
func (t *tree) renew() (err error) {
	for i := range t.shaper.Classes {
		_, failed := t.bed.host.UpdateTap(context.Background(), guestPort(i), func(p *tap.Policy) {
			p.Shaper, p.Class = t.shaper.Device, t.shaper.Classes[i].Handle()
		})
		err = cmp.Or(err, failed)
	}
	return err
}

// remove removes the tree.
func (t *tree) remove() (err error) {
	for i := range t.shaper.Classes {
		err = cmp.Or(err, t.bed.host.RemoveTap(context.Background(), guestPort(i)))
	}
	return cmp.Or(err, t.bed.host.RemoveShaper(context.Background(), t.shaper.PF))
}

// promised fills in what is kept of the guarantees if all are demanded at once: higher classes first.
func (sc *scenario) promised(capacity float64, out []float64) {
	all := *sc
	all.guests = slices.Clone(sc.guests)
	for i := range all.guests {
		all.guests[i].demand = want(unlimited)
	}
	all.entitledOf(capacity, 0, out)
}
