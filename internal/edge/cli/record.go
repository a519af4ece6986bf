package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/edge/client"
	"sluice/internal/research/trace"
)

// recordOptions are the flags of `sluice record`.
type recordOptions struct {
	every time.Duration
	span  time.Duration
	size  int
	files int
}

func (a *app) recordCommand() *cobra.Command {
	var o recordOptions
	c := &cobra.Command{
		Use: "record DIRECTORY", Short: "record what the daemon observes, for sluice sim to replay",
		Long: `Queries the daemon and writes what it observes to compressed files in DIRECTORY; each
sample contains only the changes since the previous one. When a file is full the next one
begins, and the oldest are removed, so that a recording never takes more than --file-size
times --files. It ends after --for or when interrupted; a crash costs at most the last
sample.`,
		Example: `sluice record /var/tmp/load --for 24h
sluice sim --trace /var/tmp/load --policy adaptive,activity`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(c, fmt.Errorf("%s needs one directory to write to", called(c)))
			}
			return nil
		},
	}
	f := c.Flags()
	f.DurationVar(&o.every, "every", 500*time.Millisecond, "time between two queries; the daemon keeps its last 10 samples")
	f.DurationVar(&o.span, "for", 0, "how long to record; default: until interrupted")
	f.IntVar(&o.size, "file-size", 16, "size in `MiB` at which a new file begins")
	f.IntVar(&o.files, "files", 16, "files to keep")
	c.RunE = func(c *cobra.Command, args []string) error {
		if o.every <= 0 || o.span < 0 || o.size < 1 || o.files < 1 {
			return usage(c, errors.New("--every, --file-size and --files must be above 0, and --for must not be negative"))
		}
		return a.record(c.Context(), args[0], &o)
	}
	return c
}

func (a *app) record(ctx context.Context, dir string, o *recordOptions) error {
	client := a.client()
	rec, err := trace.NewRecorder(dir, trace.RecorderOptions{MaxFile: int64(o.size) << 20, MaxFiles: o.files})
	if err != nil {
		return err
	}
	n, missed, err := follow(ctx, client, rec, o)
	if e := rec.Close(); err == nil {
		err = e
	}
	if n == 0 && err != nil {
		return err
	}
	fmt.Fprintf(a.std.Err, "%d samples recorded in %s\n", n, dir)
	if missed > 0 {
		fmt.Fprintf(a.std.Err, "%d samples between them were missed, so that a replay may decide otherwise: the daemon keeps the last ones "+
			"only, and was asked too late; use a shorter --every\n", missed)
	}
	if n := rec.WithoutMemory(); n > 0 {
		fmt.Fprintf(a.std.Err, "of its files %d do not begin with what the daemon knew, since samples came faster than it was asked: replay the "+
			"directory rather than one of them alone\n", n)
	}
	return err
}

// quiet is how long the daemon may be unreachable (a restart, an upgrade) before recording ends.
const quiet = time.Minute

// settle is how long a recording waits to start at a time without moves under way: a replay could not know how those began.
const settle = 30 * time.Second

// follower records what a daemon sees.
type follower struct {
	client *client.Client
	rec    *trace.Recorder
	begun  time.Time // time of the first query
	last   time.Time // time of the last Snapshot written, or of the memory that the first file starts with
	number uint64    // of the last sample written
	count  int       // samples written
	missed int       // samples between those written
	knows  bool      // the daemon was asked for its memory for the file that the next sample starts
}

// follow records until the time is up or ctx ends, which is not an error.
func follow(ctx context.Context, client *client.Client, rec *trace.Recorder, o *recordOptions) (samples, missed int, err error) {
	f := &follower{client: client, rec: rec, begun: time.Now()}
	if err := f.ask(ctx); err != nil {
		return 0, 0, err // no daemon
	}
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	var over <-chan time.Time
	if o.span > 0 {
		t := time.NewTimer(o.span)
		defer t.Stop()
		over = t.C
	}
	answered := time.Now()
	for {
		select {
		case <-ctx.Done():
			return f.count, f.missed, nil
		case <-over:
			return f.count, f.missed, nil
		case <-tick.C:
		}
		err := f.ask(ctx)
		switch {
		case err == nil:
			answered = time.Now()
		case ctx.Err() != nil:
			return f.count, f.missed, nil
		case time.Since(answered) > quiet || errors.Is(err, errWrite):
			return f.count, f.missed, err
		}
	}
}

var errWrite = errors.New("the recording ends")

// ask writes what the daemon has observed since the last query. A file starts with the daemon's memory before its first
// sample, if that can be had in time.
func (f *follower) ask(ctx context.Context) error {
	if ready, err := f.remember(ctx); !ready || err != nil {
		return err
	}
	seen, err := f.client.LastSeen(ctx, f.last)
	if err != nil {
		return err
	}
	for _, s := range append(seen.Earlier, seen.Sample) {
		if s.Snapshot == nil || !s.Snapshot.Time.After(f.last) {
			continue
		}
		if err := f.rec.RecordSample(s, seen.Ended); err != nil {
			return errors.Join(errWrite, err)
		}
		if f.count > 0 && s.Number > f.number+1 {
			f.missed += int(s.Number - f.number - 1) //nolint:gosec // a recording lacks fewer than an int holds
		}
		f.last, f.number, f.knows = s.Snapshot.Time, s.Number, false
		f.count++
	}
	_, err = f.remember(ctx) // at once, before there is another sample
	return err
}

// remember notes the daemon's memory for a file that the next sample will begin. The first file waits for a time without moves under
// way, and is not ready before.
func (f *follower) remember(ctx context.Context) (ready bool, err error) {
	if !f.rec.Fresh() || f.knows {
		return true, nil
	}
	m, err := f.client.Memory(ctx)
	if err != nil {
		return false, err
	}
	if m.Busy > 0 && f.count == 0 && time.Since(f.begun) < settle {
		return false, nil
	}
	f.knows = true
	if f.count == 0 {
		f.last = m.Time
	}
	if m.Time.Equal(f.last) { // otherwise it includes the next sample
		f.rec.SetMemory(m.State)
	}
	return true, nil
}
