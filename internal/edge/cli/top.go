package cli

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/edge/client"
	"sluice/internal/edge/top"
)

func (a *app) topCommand() *cobra.Command {
	return &cobra.Command{
		Use: "top", Short: "show the host and its VMs live on a terminal",
		Long: `Shows the host at a glance and its VMs in a table, and follows all changes. The table can
be sorted by any column and filtered. Enter shows the details of a VM, p the problems with
their remedies, ? the other keys. A wider terminal shows more columns and more of each
reason. It changes nothing; sluice status, vms, bw, doctor and explain print the same
information once.`,
		Example: "sluice top\nsluice top | cat        # not a terminal: refused; use sluice vms",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !IsTerminal(a.std.Out) {
				return usage(c, errors.New("top needs a terminal; `sluice status`, `vms` and `doctor` print the same information once"))
			}
			err := top.Run(c.Context(), clientSource{a.client()}, tcell.NewScreen, "Sluice")
			return ended(c.Context(), err)
		},
	}
}

// clientSource gets top's data from a daemon.
type clientSource struct{ *client.Client }

// Look implements top.Source.
func (s clientSource) Look(ctx context.Context, after uint64) (*top.Data, error) {
	_, err := s.After(ctx, after)
	if err != nil {
		return nil, err
	}
	d := &top.Data{}
	if d.Status, err = s.Status(ctx); err != nil {
		return nil, err
	}
	if d.VMs, err = s.VMs(ctx); err != nil {
		return nil, err
	}
	if d.Bandwidth, err = s.Bandwidth(ctx); err != nil {
		return nil, err
	}
	doctor, err := s.Doctor(ctx)
	d.Subjects, d.Problems = problemLines(doctor)
	return d, err
}

// Explain implements top.Source.
func (s clientSource) Explain(ctx context.Context, vm string) ([]string, error) {
	e, err := s.Client.Explain(ctx, vm)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	printExplanation(&b, e)
	return textLines(&b), nil
}

// problemLines returns doctor's output, and the subjects of all problems that are not just information.
func problemLines(d api.Doctor) (subjects, text []string) {
	for _, p := range d.Problems {
		if name := subject(p.Subject); !p.Info && !slices.Contains(subjects, name) {
			subjects = append(subjects, name)
		}
	}
	var b bytes.Buffer
	printDoctor(&b, d)
	return subjects, textLines(&b)
}

func textLines(b *bytes.Buffer) []string {
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}
