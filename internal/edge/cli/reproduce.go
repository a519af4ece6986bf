package cli

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/research/published"
	"sluice/internal/research/report"
	"sluice/internal/research/reproduce"
)

// reproduceOptions are the flags of `sluice reproduce`.
type reproduceOptions struct {
	output  string
	html    string
	sweep   bool
	verbose bool
}

func (a *app) reproduceCommand() *cobra.Command {
	var o reproduceOptions
	c := &cobra.Command{
		Use: "reproduce [PAPER [FIGURE]]", Short: "run the experiments of the papers behind Sluice, and compare",
		Long: `Runs the experiments of the five papers that Sluice implements, in virtual time with the
daemon's own code, and prints what is published beside what comes out. A figure is derived
(it follows from the model), fitted (it comes out because something, which is named, was
fitted to it), contradicted (it does not come out, for the reason given), or out of scope
(it needs the authors' applications or hardware, or the lab).

--sweep also tries other values of what a paper leaves open, and says for which of them its
conclusion holds. The papers are ` + strings.Join(paperNames(), ", ") + `. All of it takes less than a
minute, with --sweep a few. The exit code is 1 if a figure is not as it is said to be.`,
		Example: `sluice reproduce                     # all papers, and a table of all
sluice reproduce vnraf table-3       # one table
sluice reproduce flexvf --sweep      # what the conclusions hang on
sluice reproduce --html papers.html  # with the papers' plots redrawn beside ours`,
		Args: func(c *cobra.Command, args []string) error {
			if err := checkFigure(args); err != nil {
				return usage(c, err)
			}
			return nil
		},
		ValidArgsFunction: completeFigure,
	}
	f := c.Flags()
	f.StringVarP(&o.output, "output", "o", "table", "`format`: table for people, json for programs")
	f.StringVar(&o.html, "html", "", "also write a report with plots to this `file`")
	f.BoolVar(&o.sweep, "sweep", false, "try other values of what the papers leave open")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "show progress even if standard error is not a terminal")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	c.RunE = func(c *cobra.Command, args []string) error { return a.reproduce(c, args, &o) }
	return c
}

func (a *app) reproduce(c *cobra.Command, args []string, o *reproduceOptions) error {
	if o.output != "table" && o.output != "json" {
		return usage(c, fmt.Errorf("-o %s: want table or json", o.output))
	}
	if err := canWrite(c, "html", o.html); err != nil {
		return err
	}
	meter := newProgress(a.std.Err, o.verbose)
	defer meter.end()
	names := append(slices.Clone(args), "", "")
	list, err := interruptible(c.Context(), func() ([]*reproduce.Outcome, error) {
		defer debug.SetGCPercent(debug.SetGCPercent(gcPercent()))
		return reproduce.Run(c.Context(), reproduce.Options{Paper: names[0], Figure: names[1], Sweep: o.sweep, Progress: meter.show})
	})
	if err != nil {
		return err
	}
	meter.end()
	if err := toFile(o.html, list, reportOf(a, c, args, report.ReproducedHTML)); err != nil {
		return err
	}
	write := report.Reproduced
	if o.output == "json" {
		write = report.ReproducedJSON
	}
	if err := write(a.std.Out, list); err != nil {
		return err
	}
	if n := reproduce.Unexpected(list); n > 0 {
		return fmt.Errorf("%d published points are not as they are said to be: those marked %s and %s; report it as a bug",
			n, reproduce.Differs, reproduce.Agrees)
	}
	return nil
}

func paperNames() (names []string) {
	for _, p := range published.Papers() {
		names = append(names, p.Name)
	}
	return names
}

func figureNames(p *published.Paper) (names []string) {
	for i := range p.Figures {
		names = append(names, p.Figures[i].Name)
	}
	return names
}

// checkFigure checks the names of a paper and a figure.
func checkFigure(args []string) error {
	if len(args) == 0 {
		return nil
	}
	p := published.Find(args[0])
	switch {
	case p == nil:
		return fmt.Errorf("there is no paper %q; choose one of %s", args[0], strings.Join(paperNames(), ", "))
	case len(args) > 2:
		return errors.New("reproduce takes one paper and one figure at most")
	case len(args) == 2 && p.Figure(args[1]) == nil:
		return fmt.Errorf("%s has no %q; choose one of %s", p.Name, args[1], strings.Join(figureNames(p), ", "))
	}
	return nil
}

// completeFigure completes the name of a paper, then of a figure.
func completeFigure(_ *cobra.Command, args []string, _ string) (words []string, _ cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		for _, p := range published.Papers() {
			words = append(words, cobra.CompletionWithDesc(p.Name, p.About))
		}
	case 1:
		if p := published.Find(args[0]); p != nil {
			for i := range p.Figures {
				words = append(words, cobra.CompletionWithDesc(p.Figures[i].Name, p.Figures[i].Title))
			}
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
