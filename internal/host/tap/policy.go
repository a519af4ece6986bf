package tap

import (
	"context"
	"fmt"

	"sluice/internal/host/bpf"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// TapPolicy is what stands on a tap: what its guest may send (Tx) and receive (Rx), dropped
// if it is more, and the shaper that what it sends goes through.
//
// Bits are those on the wire: 8 x (bytes + 24 x packets), and of a frame that the NIC is to
// cut up those of all its parts. A limit in bits/s is at least 8 kbit/s.
type TapPolicy struct {
	Tap    string
	Tx, Rx PathRates
	Shaper int    // ifindex of an ifb, 0: none
	Class  uint32 // of the shaper's HTB: major<<16 | minor

	// What UpdateTap and TapPolicies report; an edit does not change it.
	Index     int       // of the tap that the programs are attached to, 0: there are none
	Detached  model.Tri // whether nothing of this holds: the tap has gone, or somebody has removed the programs
	Leased    bool      // what is allowed now holds, and the shaper is used
	TxDropped Dropped   // since the policy was made
	RxDropped Dropped
}

// PathRates are the limits of one direction; 0 is none.
type PathRates struct {
	Now      model.Rate // what is allowed until the lease ends: in place of the contract, part by part
	Contract model.Rate // what holds then, until it is changed, whatever becomes of this process
}

// IsZero says whether nothing is limited.
func (r PathRates) IsZero() bool { return r == PathRates{} }

// Dropped counts frames above a limit as the tap's own counters do, which count them too: a
// frame that the NIC is to cut up is one, and Bytes are without preamble, gap and checksum.
type Dropped struct{ Packets, Bytes uint64 }

// wants says which directions need a program.
func (t *TapPolicy) wants() [2]bool {
	return [2]bool{dirTx: !t.Tx.IsZero() || t.Shaper != 0, dirRx: !t.Rx.IsZero()}
}

// UpdateTap changes what stands on a tap, or renews its lease if edit changes nothing, and
// returns what is true then. What goes to a shaper is seen by nothing behind ours at the tap's ingress: so ours are
// the last of the TCX programs there, and a shaper is refused where filters hang on an ingress qdisc. edit is called once, with what stands by now, whoever made
// it; it may not call the Host. A policy that asks for nothing leaves nothing on the tap.
//
// It is meant to be called for every tap several times a second: where nothing but rates
// change, it asks the kernel once for each direction whether the program is still there.
func (h *Taps) UpdateTap(ctx context.Context, tap string, edit func(*TapPolicy)) (TapPolicy, error) {
	var now TapPolicy // not the result: if ctx ends, this is still being written
	err := h.k.Busy.Exclusive(ctx, "tap "+tap, func() (err error) {
		now, err = h.taps.update(tap, edit, tapQuestions{ctx, h, tap})
		return err
	})
	if err != nil {
		return TapPolicy{}, sysif.Fail("limit tap", tap, err)
	}
	return now, nil
}

// tapQuestions asks the kernel of a tap what only changes need to know.
type tapQuestions struct {
	ctx context.Context
	h   *Taps
	tap string
}

func (q tapQuestions) index() (int, error) {
	l, err := q.h.links.Link(q.ctx, q.tap)
	return l.Index, err
}

// noFilters says why no frame from the tap may go to a shaper.
func (q tapQuestions) noFilters(index int) error { return q.h.links.NoFilters(q.ctx, q.tap, index) }

// TapPolicies lists what stands on taps, whichever process made it, sorted by tap. Taps that are switch ports and
// nothing else are not among them.
func (h *Taps) TapPolicies(ctx context.Context) ([]TapPolicy, error) {
	var found []TapPolicy
	err := h.k.Busy.Exclusive(ctx, "list taps", func() (err error) {
		found, err = h.taps.list()
		return err
	})
	if err != nil {
		return nil, sysif.Fail("list limits of", "taps", err)
	}
	return found, nil
}

// TapDrops is how many frames of a tap were above a limit since its policy was made, by ifindex.
type TapDrops struct {
	Index  int
	Tx, Rx uint64
}

// TapDrops appends those of the taps that this process limits. It asks the kernel nothing and waits for no call
// that does, so it can be called many times a second.
func (h *Taps) TapDrops(buf []TapDrops) []TapDrops {
	s := h.taps
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.open {
		buf = append(buf, TapDrops{t.index, t.mem.dropped(dirTx).Packets, t.mem.dropped(dirRx).Packets})
	}
	return buf
}

// RemoveTap takes everything that UpdateTap put there off a tap, or what is left of it where
// the tap has gone. A switch port stays. That there is nothing is no error.
func (h *Taps) RemoveTap(ctx context.Context, tap string) error {
	err := h.k.Busy.Exclusive(ctx, "tap "+tap, func() error { return h.taps.removePolicy(tap, tapQuestions{ctx, h, tap}) })
	return sysif.Fail("remove limits from tap", tap, err)
}

// SetLocalMACs says which frames no shaper is for: those to these addresses, since they stay
// on this host. It replaces what was said before.
func (h *Taps) SetLocalMACs(ctx context.Context, macs []model.MAC) error {
	err := h.k.Busy.Exclusive(ctx, "local MACs", func() error { return h.taps.setLocal(macs) })
	return sysif.Fail("tell shapers of", "local MACs", err)
}

// CheckTaps says why limits of taps cannot be had (model.ErrPermanent), or why they would end with this
// process; nil if all is well.
func (h *Taps) CheckTaps() error {
	if err := bpf.CheckTCX(); err != nil {
		return fmt.Errorf("taps cannot be limited: %w", err)
	}
	if err := h.taps.pins.Ready(); err != nil {
		return fmt.Errorf("limits of taps end with this process: %w", err)
	}
	return nil
}
