package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Traffic describes packets from one place to another. Places are "vm1" and so on, "ext" and "ext1" (the outside hosts), and "host"
// (the host itself, br0).
type Traffic struct {
	From, To string
	PPS      float64
	Size     int           // bytes of UDP payload; at least 32
	Gap      time.Duration // longer silences are listed; 0: 100 ms
}

// Gap is a time in which packets did not arrive, or some were lost.
type Gap struct {
	// Start and End are when the packets before and after came, by the clock of the machine that received them. The lab sets all clocks
	// to this machine's at resume, within some ten milliseconds.
	Start, End time.Time
	// StartMono and EndMono are the same on the receiver's monotonic clock.
	StartMono, EndMono time.Duration
	// Missing counts packets that never came. For round trips, out and back tell which way they were lost.
	Missing, MissingOut, MissingBack uint64
}

// Length returns the time without packets.
func (g Gap) Length() time.Duration { return g.EndMono - g.StartMono }

func (g Gap) String() string {
	return fmt.Sprintf("%s..%s %v, %d missing", g.Start.Format("15:04:05.000"), g.End.Format("15:04:05.000"),
		g.Length().Round(time.Millisecond), g.Missing)
}

// Report is the result of a flow.
type Report struct {
	Sent       uint64 // by the sender, or due but rejected by its kernel
	SendErrors uint64 // of these, rejected by its kernel
	Received   uint64 // without duplicates
	Lost       uint64 // Sent - Received
	Duplicates uint64
	Reordered  uint64
	LongestGap time.Duration // even if too short for Gaps
	Gaps       []Gap

	// Of round trips only: loss on each way, and times.
	LostOut, LostBack      uint64
	RTTMin, RTTAvg, RTTMax time.Duration
}

// During returns the losses of the gaps that overlap from..to, and the longest of them.
func (r Report) During(from, to time.Time) (missing uint64, longest time.Duration) {
	for _, g := range r.Gaps {
		if g.End.Before(from) || g.Start.After(to) {
			continue
		}
		missing += g.Missing
		longest = max(longest, g.Length())
	}
	return missing, longest
}

func (r Report) String() string {
	s := fmt.Sprintf("sent %d received %d lost %d dup %d reordered %d longest gap %v", r.Sent, r.Received, r.Lost,
		r.Duplicates, r.Reordered, r.LongestGap.Round(time.Millisecond))
	for _, g := range r.Gaps {
		s += "\n  " + g.String()
	}
	return s
}

// Flow is traffic in progress.
type Flow struct {
	sender, receiver *probe // receiver is nil for round trips
}

// StartFlow starts a receiver, then a one-way sender.
func (h *Host) StartFlow(ctx context.Context, t Traffic) (*Flow, error) {
	n := 10000 + 2*int(h.serial.Add(1))
	receiver, err := h.startProbe(ctx, t.To, n, fmt.Sprintf("recv %d --gap %d", n, t.gapMS()))
	if err != nil {
		return nil, err
	}
	sender, err := h.startProbe(ctx, t.From, n+1,
		fmt.Sprintf("send %s %d %g %d --control %d", t.target(), n, t.PPS, t.Size, n+1))
	if err != nil {
		_, stopErr := receiver.stop(ctx)
		return nil, errors.Join(err, stopErr)
	}
	return &Flow{sender, receiver}, nil
}

// StartPing starts round trips: from t.From to the echo service of t.To.
func (h *Host) StartPing(ctx context.Context, t Traffic) (*Flow, error) {
	n := 10000 + 2*int(h.serial.Add(1))
	sender, err := h.startProbe(ctx, t.From, n,
		fmt.Sprintf("ping %s 7 %g %d --control %d --gap %d", t.target(), t.PPS, t.Size, n, t.gapMS()))
	return &Flow{sender: sender}, err
}

func (t Traffic) gapMS() int64 {
	if t.Gap == 0 {
		return 100
	}
	return t.Gap.Milliseconds()
}

// target returns the address to send to: the host has one on each bridge.
func (t Traffic) target() string {
	if t.To == "host" && (t.From == "vm7" || t.From == "ext1") {
		return "10.9.1.1"
	}
	return Address(t.To)
}

// SetRate changes the flow's rate and packet size.
func (f *Flow) SetRate(ctx context.Context, pps float64, size int) error {
	_, err := f.sender.ctl(ctx, fmt.Sprintf("rate %g %d", pps, size))
	return err
}

// Sent returns how many packets the sender has sent so far.
func (f *Flow) Sent(ctx context.Context) (uint64, error) {
	r, err := f.sender.ctl(ctx, "stats")
	return r.Sent, err
}

// Received returns how many packets have arrived, or returned, so far.
func (f *Flow) Received(ctx context.Context) (uint64, error) {
	last := f.receiver
	if last == nil {
		last = f.sender
	}
	r, err := last.ctl(ctx, "stats")
	return r.Unique, err
}

// Stop ends the flow, waits until no more packets arrive, and reports.
func (f *Flow) Stop(ctx context.Context) (Report, error) {
	last, err := f.sender.ctl(ctx, "rate 0")
	if err != nil {
		return Report{}, err
	}
	if err := f.drain(ctx, last.Sent); err != nil {
		return Report{}, err
	}
	s, err := f.sender.stop(ctx)
	if f.receiver == nil {
		return s.report(), err
	}
	r, rerr := f.receiver.stop(ctx)
	r.Sent, r.Errors = s.Sent, s.Errors
	return r.report(), errors.Join(err, rerr)
}

// drain waits until all sent packets have arrived, or none has for a while: under emulation a queue may hold packets for seconds.
func (f *Flow) drain(ctx context.Context, sent uint64) error {
	const quiet, limit = 3 * time.Second, 30 * time.Second
	start := time.Now()
	var got uint64
	changed := start
	for time.Since(changed) < quiet && time.Since(start) < limit {
		n, err := f.Received(ctx)
		if err != nil {
			return err
		}
		if n >= sent {
			break
		}
		if n > got {
			got, changed = n, time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}
