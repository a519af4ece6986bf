package actuate

import (
	"cmp"
	"slices"

	"sluice/internal/host/htb"
	"sluice/internal/model"
)

// member is a tap that sends through a PF's tree.
type member struct {
	nic   *model.NIC
	limit model.Limit // zero except for its key: no limit
	class htb.ShaperClass
	alone uint64 // bits/s that it may send outside of the tree without taking from the guarantees of others
}

// All members of a tree together have at least floorShare of the link, so that guaranteed members cannot starve the others completely. No
// member has less than leastRate bits/s.
const (
	floorShare = 0.01
	leastRate  = 8000
)

// turn is the quantum in bytes of the member with the least weight: the longest frame, because HTB lets one frame pass per turn however
// long it is. mostWeight bounds the ratio of other weights to that one.
const (
	turn       = 64 << 10
	mostWeight = 64
)

// members returns the taps that reach the wire through the PF, sorted by ifindex, with the class of each.
func members(snap *model.Snapshot, pf *model.PF, root *model.Limit, limits map[model.LimitKey]model.Limit) []member {
	var all []member
	for vm, n := range snap.NICs() {
		if n.TapIndex == 0 || n.VirtualPF != "" || snap.VirtioPF(n) != pf {
			continue
		}
		key := model.LimitKey{VM: vm.ID, NIC: n.Alias, Path: model.PathVirtio, Dir: model.Tx}
		m := member{nic: n, limit: limits[key]}
		m.limit.LimitKey = key
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b member) int { return cmp.Compare(a.nic.TapIndex, b.nic.TapIndex) })
	number(all)
	share(all, budget(pf, root), max(pf.Shared(), budget(pf, root)))
	return all
}

// budget returns what all taps of a PF together may send, bits/s.
func budget(pf *model.PF, root *model.Limit) uint64 {
	const unknown = 100e9
	return cmp.Or(root.Tightest().Bits, pf.Shared(), unknown)
}

// number assigns each tap a class by its ifindex, so that it keeps the class when other taps come and go; in the rare case of a collision,
// the tap with the higher ifindex takes the next free one. Taps beyond the number of classes get none (ID 0) and are policed.
func number(all []member) {
	const first, last = 1, htb.MostShaped
	taken := map[uint16]bool{}
	for i := range all[:min(len(all), last)] {
		id := first + all[i].nic.TapIndex%(last-first+1)
		for taken[uint16(id)] {
			if id++; id > last {
				id = first
			}
		}
		taken[uint16(id)] = true
		all[i].class.ID = uint16(id)
	}
}

// share sets the members' rates to their guarantees, or to their part of the floor if that is more. The sum never exceeds the budget, since
// HTB would let it pass. Ceilings do not depend on the budget, which changes constantly.
func share(all []member, budget, speed uint64) {
	weights, least := 0.0, 0.0
	for i := range all {
		w := weight(&all[i].limit)
		weights += w
		if least == 0 || w < least {
			least = w
		}
	}
	sum := uint64(leastRate) // for traffic without a class
	for i := range all {
		m := &all[i]
		w := weight(&m.limit)
		m.class.Ceil = max(leastRate, cmp.Or(min(m.limit.Tightest().Bits, speed), speed))
		m.class.Rate = min(max(m.limit.Guarantee, floor(speed, w/weights)), m.class.Ceil)
		m.class.Quantum = uint32(turn * min(w/least, mostWeight))
		sum += m.class.Rate
	}
	fit(all, sum, budget)
	left := float64(budget - min(budget, leastRate))
	for i := range all {
		left -= float64(all[i].class.Rate)
	}
	for i := range all {
		m := &all[i]
		m.alone = min(m.class.Ceil, m.class.Rate+uint64(max(0, left)*weight(&m.limit)/weights))
	}
}

func floor(speed uint64, part float64) uint64 {
	return max(leastRate, uint64(floorShare*part*float64(speed)))
}

// fit lowers rates whose sum exceeds the budget: first the parts above the guarantees, then all in proportion.
func fit(all []member, sum, budget uint64) {
	for i := range all {
		m := &all[i]
		if least := max(leastRate, min(m.limit.Guarantee, m.class.Ceil)); sum > budget && m.class.Rate > least {
			drop := min(sum-budget, m.class.Rate-least)
			m.class.Rate -= drop
			sum -= drop
		}
	}
	if sum > budget {
		for i := range all {
			m := &all[i]
			m.class.Rate = max(leastRate, uint64(float64(m.class.Rate)*float64(budget)/float64(sum)))
		}
	}
}

func weight(l *model.Limit) float64 {
	if l.Weight > 0 {
		return l.Weight
	}
	return 1
}

// Bounds of a member's queue, in bytes: two of the longest frames, and what TCP needs on the longest paths.
const (
	leastQueue = 128 << 10
	mostQueue  = 2 << 20
)

// queueOf returns how many bytes of a member may queue: what the link carries in a millisecond. A member with the whole link thus waits at
// most 1 ms, and one with a tenth of it ten times as long.
func queueOf(speed uint64) int {
	return int(min(max(speed/8/1000, leastQueue), mostQueue))
}
