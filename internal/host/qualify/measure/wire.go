package measure

import (
	"context"
	"errors"
	"time"

	"sluice/internal/host/kernel/frames"
)

// Timing of test frames.
const (
	passPause = time.Millisecond // between two frames, so as not to displace other traffic
	passWait  = 1500 * time.Millisecond
	floodWait = 200 * time.Millisecond // for frames still in flight
)

// NewSpace makes a Space with a real network namespace.
func NewSpace() (Space, error) {
	s, err := frames.NewSpace()
	if err != nil {
		return nil, err
	}
	return wire{s}, nil
}

// wire sends real frames.
type wire struct{ *frames.Space }

// at returns the namespace of an interface; nil: the host's.
func (w wire) at(name string) *frames.Space {
	if w.Has(name) {
		return w.Space
	}
	return nil
}

// between opens both ends and calls use, which sends and counts.
func (w wire) between(from, to string, f *frames.Frame, use func(*frames.Sender, *frames.Counter) error) error {
	f.Mark = frames.NewMark()
	in, err := frames.NewCounter(w.at(to), to, f.Mark)
	if err != nil {
		return err
	}
	out, err := frames.NewSender(w.at(from), from)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	return errors.Join(use(out, in), out.Close(), in.Close())
}

// Pass implements Space.
func (w wire) Pass(ctx context.Context, from, to string, f frames.Frame, n int) (got int, err error) {
	err = w.between(from, to, &f, func(out *frames.Sender, in *frames.Counter) error {
		if _, err := out.Send(ctx, f, n, passPause); err != nil {
			return err
		}
		got, err = in.Await(ctx, n, passWait)
		return err
	})
	return got, err
}

// Flood implements Space.
func (w wire) Flood(ctx context.Context, from, to string, f frames.Frame, d time.Duration) (perSecond float64, err error) {
	err = w.between(from, to, &f, func(out *frames.Sender, in *frames.Counter) error {
		begin := time.Now()
		if _, _, err := out.Flood(ctx, f, d); err != nil {
			return err
		}
		got, err := in.Count()
		perSecond = float64(got) / time.Since(begin).Seconds()
		time.Sleep(floodWait) // frames still queued must not count for the next measurement
		return err
	})
	return perSecond, err
}
