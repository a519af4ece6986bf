package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
)

// eventsShown is how many lines `sluice events` prints by default.
const eventsShown = 40

func (a *app) eventsCommand() *cobra.Command {
	var q answer.EventsQuery
	var follow bool
	var since, until string
	c := &cobra.Command{
		Use: "events [VM]", Short: "what happened, when and by which cause",
		Long: `Lists what has happened on the host, or to one VM, oldest first: VFs that VMs got and
lost, moves that failed, links that went down and came back, what people asked for,
reloads, guarantees that were not kept, problems that doctor found. Each line has its cause: the link of a PF, a drain,
a pin or a release and who asked for it, a reload, a restart, an SLA, the guest, a failure,
or the policy and the VM that gets the VF instead.

What one cause brings about at one time is one line, with the names of the VMs below it.
--since and --until take a time as printed, a time of the last 24 hours such as 18:52, or
how long ago, such as 1h30m. With --follow, such a line is printed when nothing was
added to it for some seconds.

The daemon keeps the last 5,000 events, also when it is restarted; its log has them too.`,
		Example: `sluice events                 # the last 40 lines
sluice events web-07          # why did web-07 lose its VF?
sluice events --since 1h      # or --since 02:45
sluice events --follow        # wait for more
sluice events --last 0 -o json | jq '.events[] | select(.alarm)'`,
		ValidArgsFunction: a.completeVM,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(c, fmt.Errorf("%s takes one VM at a time, but got %d", called(c), len(args)))
			}
			return nil
		},
	}
	o := outputFlag(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on printing what happens, until interrupted")
	c.Flags().IntVarP(&q.Last, "last", "n", eventsShown, "print the last `lines` only; 0: all")
	_ = c.RegisterFlagCompletionFunc("last", nothingToOffer)
	c.Flags().StringVar(&since, "since", "", "print only what happened from then on: a `time`, or how long ago")
	c.Flags().StringVar(&until, "until", "", "print only what happened up to then: a `time`, or how long ago")
	_ = c.RegisterFlagCompletionFunc("since", nothingToOffer)
	_ = c.RegisterFlagCompletionFunc("until", nothingToOffer)
	c.MarkFlagsMutuallyExclusive("follow", "until")
	c.RunE = func(c *cobra.Command, args []string) error {
		if q.Last < 0 {
			return usage(c, errors.New("--last must not be negative"))
		}
		if len(args) > 0 {
			q.VM = args[0]
		}
		if since+until != "" {
			if err := a.between(c, &q, since, until); err != nil {
				return err
			}
		}
		happened, err := a.client().Happened(c.Context(), q)
		if err != nil {
			return err
		}
		if follow {
			print := func(e *api.Events) error { return printEach(a.std.Out, o, e) }
			return ended(c.Context(), followEvents(c.Context(), a.client(), q, happened, print))
		}
		return show(a.std.Out, o, happened, printEvents)
	}
	return c
}

// between sets the times of q. What is relative is so by the daemon's clock.
func (a *app) between(c *cobra.Command, q *answer.EventsQuery, since, until string) error {
	now, err := a.now(c.Context())
	if err != nil {
		return err
	}
	if q.Since, err = moment(since, now); err != nil {
		return usage(c, fmt.Errorf("--since %w", err))
	}
	if q.Until, err = moment(until, now); err != nil {
		return usage(c, fmt.Errorf("--until %w", err))
	}
	return nil
}

// moment reads a time: how long ago, a time of the last 24 hours, or one with its date; zero for "".
func moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	now = now.Local()
	for _, layout := range []string{"15:04", time.TimeOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			if at.After(now) {
				at = at.AddDate(0, 0, -1)
			}
			return at, nil
		}
	}
	for _, layout := range []string{time.DateTime, "2006-01-02 15:04", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: give for example 1h30m, 18:52 or '2026-03-01 18:52:00'", text)
}

func printEvents(w io.Writer, e api.Events) {
	if len(e.Lines) == 0 {
		fmt.Fprintln(w, "Nothing has happened, as far as the daemon remembers.")
		return
	}
	if e.More {
		fmt.Fprintf(w, "Only the last %d lines; --last 0 prints all.\n", len(e.Lines))
	}
	for i := range e.Lines {
		fmt.Fprintln(w, eventLine(&e.Lines[i], names(&e.Lines[i])))
	}
}

// eventLine is an event with its time, and what may follow on a line of its own.
func eventLine(e *api.Event, below string) string {
	mark := " "
	if e.Alarm {
		mark = "!"
	}
	s := fmt.Sprintf("%s %s %s", e.From.Format(time.DateTime), mark, printable(e.Text))
	if below != "" {
		s += "\n" + strings.Repeat(" ", len(time.DateTime)+3) + below
	}
	return s
}

// namesShown is how many VMs are named below a line about several.
const namesShown = 8

// names lists the VMs of an event that is about several, "" else.
func names(e *api.Event) string {
	seen := map[string]bool{}
	var list []string
	for i := range e.VMs {
		if n := printable(e.VMs[i].VM); !seen[n] {
			seen[n] = true
			list = append(list, n)
		}
	}
	if e.Count < 2 || len(list) == 0 {
		return ""
	}
	more := len(list) - namesShown
	if more > 1 {
		return strings.Join(list[:namesShown], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(list, ", ")
}

// An event that more may join is printed once nothing was added for eventSettles, or eventWaits after its beginning.
const (
	eventSettles = 3 * time.Second
	eventWaits   = 15 * time.Second
)

// settled reports whether all lines can be printed: none may still grow, or the first has waited for long.
func settled(e *api.Events) bool {
	if len(e.Lines) == 0 {
		return false
	}
	for i := range e.Lines {
		if e.Now.Sub(e.Lines[i].To) < eventSettles {
			return e.Now.Sub(e.Lines[0].From) >= eventWaits
		}
	}
	return true
}

// printEach prints events that follow others: in JSON, one on each line.
func printEach(w io.Writer, o *output, e *api.Events) error {
	for i := range e.Lines {
		text := eventLine(&e.Lines[i], names(&e.Lines[i]))
		if o.json {
			data, err := json.Marshal(e.Lines[i])
			if err != nil {
				return err
			}
			text = string(escaped(data))
		}
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	return nil
}

// happenings is the daemon as followEvents needs it.
type happenings interface {
	After(ctx context.Context, revision uint64) (uint64, error)
	Happened(ctx context.Context, q answer.EventsQuery) (api.Events, error)
}

// followEvents prints the events so far, and then those to come.
func followEvents(ctx context.Context, from happenings, q answer.EventsQuery, so api.Events, print func(*api.Events) error) error {
	if err := print(&so); err != nil {
		return err
	}
	q.Last, q.After = 0, so.Newest
	for revision := uint64(0); ; {
		var err error
		if revision, err = from.After(ctx, revision); err != nil {
			return err
		}
		news, err := from.Happened(ctx, q)
		if err != nil {
			return err
		}
		if !settled(&news) {
			continue
		}
		if err := print(&news); err != nil {
			return err
		}
		q.After = news.Newest
	}
}
