package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/model"
	"sluice/internal/trace"
	"sluice/internal/web"
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
		Use: "record DIRECTORY", Short: "write what the daemon sees to files that sluice sim replays",
		Long: `Asks the daemon for what it sees and writes it to compressed files in DIRECTORY, only
what changed since the sample before. When a file is full the next begins; the oldest
are removed, so that a recording never takes more than --file-size times --files. It goes
on until --for is over or it is interrupted; a crash costs the last sample at most.`,
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
	f.DurationVar(&o.every, "every", 500*time.Millisecond, "time between two questions; half the daemon's sample misses nothing")
	f.DurationVar(&o.span, "for", 0, "how long to record; default: until interrupted")
	f.IntVar(&o.size, "file-size", 16, "`MiB` after which a new file begins")
	f.IntVar(&o.files, "files", 16, "files to keep")
	c.RunE = func(c *cobra.Command, args []string) error {
		if o.every <= 0 || o.span < 0 || o.size < 1 || o.files < 1 {
			return usage(c, errors.New("times, --file-size and --files must be above zero"))
		}
		return a.record(c.Context(), args[0], &o)
	}
	return c
}

func (a *app) record(ctx context.Context, dir string, o *recordOptions) error {
	client := a.client()
	first, err := client.LastSeen(ctx)
	if err != nil {
		return err
	}
	rec, err := trace.NewRecorder(dir, trace.RecorderOptions{MaxFile: int64(o.size) << 20, MaxFiles: o.files})
	if err != nil {
		return err
	}
	n, err := follow(ctx, client, first, rec, o)
	if e := rec.Close(); err == nil {
		err = e
	}
	_, _ = fmt.Fprintf(a.std.Err, "%d samples recorded in %s\n", n, dir)
	return err
}

// quiet is how long the daemon may be away (a restart, an upgrade) before recording ends.
const quiet = time.Minute

// follow records until the time is over or ctx ends, which is no error.
func follow(ctx context.Context, client *web.Client, seen web.Recent, rec *trace.Recorder, o *recordOptions) (samples int, err error) {
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	var over <-chan time.Time
	if o.span > 0 {
		t := time.NewTimer(o.span)
		defer t.Stop()
		over = t.C
	}
	var last time.Time
	heard := time.Now()
	for {
		if seen.Snapshot != nil && seen.Snapshot.Time.After(last) {
			if err := rec.RecordView(&model.View{Snapshot: seen.Snapshot, Rules: seen.Rules, Recent: seen.Ended}); err != nil {
				return samples, err
			}
			last = seen.Snapshot.Time
			samples++
		}
		select {
		case <-ctx.Done():
			return samples, nil
		case <-over:
			return samples, nil
		case <-tick.C:
		}
		next, err := client.LastSeen(ctx)
		switch {
		case err == nil:
			seen, heard = next, time.Now()
		case ctx.Err() != nil:
			return samples, nil
		case time.Since(heard) > quiet:
			return samples, err
		}
	}
}
