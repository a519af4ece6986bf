package tap

import (
	"context"
	"fmt"

	"sluice/internal/host/bpf"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// Policy is the policy of a tap: limits on what its guest may send (Tx) and receive (Rx), above which frames are dropped, and
// the shaper that what it sends passes through.
//
// Bits are bits on the wire, 8 x (bytes + 24 x packets), counting all segments of a frame that the NIC will segment. The lowest
// limit in bits/s is 8 kbit/s.
type Policy struct {
	Tap    string
	Tx, Rx PathRates
	Shaper int    // ifindex of an ifb, 0: none
	Class  uint32 // of the shaper's HTB: major<<16 | minor

	// Set by UpdateTap and TapPolicies; changes by edit are ignored.
	Index     int       // of the tap that the programs are attached to, 0: none attached
	Detached  model.Tri // whether nothing is enforced: the tap has gone, or somebody has removed the programs
	Leased    bool      // the lease runs: Now applies, and the shaper is used
	TxDropped Dropped   // since the policy was created
	RxDropped Dropped
}

// PathRates are the limits of one direction; 0 means none.
type PathRates struct {
	Now      model.Rate // applies until the lease ends, each nonzero part in place of the contract's
	Contract model.Rate // applies after that until it is changed, whether or not this process still runs
}

// IsZero reports whether nothing is limited.
func (r PathRates) IsZero() bool { return r == PathRates{} }

// Dropped counts frames above a limit the way the tap's own counters do, which include them: a frame still to be segmented counts
// once, and Bytes exclude preamble, gap and checksum.
type Dropped struct{ Packets, Bytes uint64 }

// LeadsTo reports whether what the guest sends goes through the shaper with that ifindex now.
func (t *Policy) LeadsTo(shaper int) bool {
	return t.Shaper == shaper && t.Leased && t.Detached == model.No
}

// wants returns the directions that need a program.
func (t *Policy) wants() [2]bool {
	return [2]bool{dirTx: !t.Tx.IsZero() || t.Shaper != 0, dirRx: !t.Rx.IsZero()}
}

// UpdateTap changes the policy of a tap and renews its lease, also when edit changes nothing, and returns the resulting policy.
// It calls edit once with the current policy, whoever made it; edit must not call the Host. A policy without limits and shaper
// removes everything that UpdateTap put on the tap.
//
// Programs behind ours at the tap's ingress would not see frames redirected to a shaper. Ours is therefore the last TCX program
// there, and UpdateTap refuses a shaper if filters are attached to an ingress qdisc.
//
// UpdateTap is meant to be called for every tap several times a second: if only rates change, it asks the kernel just once per
// direction, whether the program is still attached.
func (h *Taps) UpdateTap(ctx context.Context, tap string, edit func(*Policy)) (Policy, error) {
	var now Policy // not the result: still being written if ctx ends
	err := h.k.Busy.Exclusive(ctx, "tap "+tap, func() (err error) {
		now, err = h.taps.update(ctx, tap, edit)
		return err
	})
	if err != nil {
		return Policy{}, sysif.Fail("limit tap", tap, err)
	}
	return now, nil
}

// TapPolicies lists the policies of taps, whichever process made them, sorted by tap. It omits taps that are only switch ports.
func (h *Taps) TapPolicies(ctx context.Context) ([]Policy, error) {
	var found []Policy
	err := h.k.Busy.Exclusive(ctx, "list taps", func() (err error) {
		found, err = h.taps.list()
		return err
	})
	if err != nil {
		return nil, sysif.Fail("list limits of", "taps", err)
	}
	return found, nil
}

// Drops counts the frames of a tap above a limit since its policy was created.
type Drops struct {
	Index  int
	Tx, Rx uint64
}

// TapDrops appends the counts of the taps that this process limits. It makes no system calls and does not wait for calls that do,
// so it can be called many times a second.
func (h *Taps) TapDrops(buf []Drops) []Drops {
	s := h.taps
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.open {
		buf = append(buf, Drops{t.index, t.mem.dropped(dirTx).Packets, t.mem.dropped(dirRx).Packets})
	}
	return buf
}

// RemoveTap removes everything that UpdateTap put on a tap, or its remains if the tap has gone. A switch port stays. It is not an
// error if there is nothing to remove.
func (h *Taps) RemoveTap(ctx context.Context, tap string) error {
	err := h.k.Busy.Exclusive(ctx, "tap "+tap, func() error { return h.taps.removePolicy(ctx, tap) })
	return sysif.Fail("remove limits from tap", tap, err)
}

// SetLocalMACs sets the destination MACs whose frames bypass shapers because they stay on this host. It replaces the earlier set.
func (h *Taps) SetLocalMACs(ctx context.Context, macs []model.MAC) error {
	err := h.k.Busy.Exclusive(ctx, "local MACs", func() error { return h.taps.setLocal(macs) })
	return sysif.Fail("set", "local MACs", err)
}

// CheckTaps returns the reason why taps cannot be limited (model.ErrPermanent), or why their limits would end with this process,
// else nil.
func (h *Taps) CheckTaps() error {
	if err := bpf.CheckTCX(); err != nil {
		return fmt.Errorf("taps cannot be limited: %w", err)
	}
	if err := h.taps.pins.Ready(); err != nil {
		return fmt.Errorf("limits of taps end with this process: %w", err)
	}
	return nil
}
