package lab

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// syncClock sets the host's clock, which stood still in the snapshot, to this machine's within a few milliseconds, so that a test may
// compare times of both.
func (h *Host) syncClock(ctx context.Context) error {
	for range 2 { // the first correction is by days, the second is precise
		ahead, err := h.clockOffset(ctx)
		if err != nil {
			return err
		}
		if _, err := h.Run(ctx, fmt.Sprintf("labprobe clock %+d", -ahead.Nanoseconds())); err != nil {
			return err
		}
	}
	return nil
}

// clockOffset returns how far the host's clock is ahead of this machine's, by the fastest of several exchanges over one connection.
func (h *Host) clockOffset(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := h.ssh.command(ctx, "while read -r _; do echo $EPOCHREALTIME; done")
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() {
		in.Close()
		_ = cmd.Wait()
	}()
	lines := bufio.NewReader(out)
	return quickest(8, func() (time.Time, error) {
		if _, err := fmt.Fprintln(in); err != nil {
			return time.Time{}, err
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			return time.Time{}, err
		}
		seconds, micros, _ := strings.Cut(strings.TrimSpace(line), ".")
		s, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil {
			return time.Time{}, err
		}
		us, err := strconv.ParseInt(micros, 10, 64)
		return time.Unix(s, us*1000), err
	})
}

// syncGuestClock does the same for a guest.
func (h *Host) syncGuestClock(ctx context.Context, vm string) error {
	a := h.agent(vm)
	ahead, err := quickest(5, func() (time.Time, error) {
		var ns int64
		err := a.do(ctx, "guest-get-time", nil, &ns)
		return time.Unix(0, ns), err
	})
	if err != nil {
		return err
	}
	_, err = a.Exec(ctx, fmt.Sprintf("labprobe clock %+d", -ahead.Nanoseconds()))
	return err
}

// quickest measures n times and returns the offset of the fastest exchange.
func quickest(n int, ask func() (time.Time, error)) (offset time.Duration, err error) {
	best := time.Hour
	for range n {
		before := time.Now()
		there, err := ask()
		if err != nil {
			return 0, err
		}
		if took := time.Since(before); took < best {
			best = took
			offset = there.Sub(before.Add(took / 2))
		}
	}
	return offset, nil
}

// Now returns the host's time.
func (h *Host) Now(ctx context.Context) (time.Time, error) {
	offset, err := h.clockOffset(ctx)
	return time.Now().Add(offset), err
}
