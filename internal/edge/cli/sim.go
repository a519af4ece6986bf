package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/control/placement"
	"sluice/internal/research/report"
	"sluice/internal/research/scenario"
	"sluice/internal/research/trace"
)

// simOptions are the flags of `sluice sim`.
type simOptions struct {
	trace     string
	vfs       int
	policies  []string
	allocs    []string
	interval  time.Duration
	sample    time.Duration
	seed      int
	parallel  int
	size      float64
	lineRate  float64
	output    string
	html      string
	decisions string
	verbose   bool
	quick     bool
}

func (a *app) simCommand() *cobra.Command {
	var o simOptions
	c := &cobra.Command{
		Use: "sim {FILE | --trace FILE --vfs N}", Short: "evaluate policies on a given load, in virtual time",
		Long: `Runs policies on a simulated host: the daemon's own code decides, plans and moves, in
virtual time. The load comes from a scenario FILE or from a trace: CSV with the columns
time_s, vm, pps and, if known, bytes_s and cpu_pct; a Prometheus range query of libvirt
counters; or a recording by ` + "`sluice record`" + `, which also provides VMs, VFs and rules.
Every policy is scored against the best placement with knowledge of the future. With
allocators, named by the scenario or by --allocators, VMs share links, and guarantees of
bandwidth are scored instead: how often each was kept, and how much of the link was used.
A scenario can also say which faults of VFs, representors and switches happen when, and for
how long they may cut a VM off.`,
		Example: `sluice sim scenarios/vnraf-table-3.yaml
sluice sim scenarios/three-guarantees.yaml --allocators none,dbavm,waterfill --html report.html
sluice sim --trace load.csv --vfs 8 --policy adaptive,activity,fair --html report.html
sluice sim --trace load.csv --vfs 8 --policy activity --interval 10s -o json --decisions moves.csv`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(c, fmt.Errorf("%s takes one scenario at a time, but got %d", called(c), len(args)))
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&o.trace, "trace", "", "`file` (or directory of a recording) with the load to run")
	f.IntVar(&o.vfs, "vfs", 0, "number of VFs; required with a trace, overrides the only PF of a scenario or recording")
	f.StringSliceVar(&o.policies, "policy", nil, "policies to compare, such as adaptive,fair; default: the scenario's, or all")
	f.StringSliceVar(&o.allocs, "allocators", nil, "bandwidth allocators to compare, such as none,static,daqs,waterfill;"+
		" default: the scenario's")
	f.DurationVar(&o.interval, "interval", 0, "time between rounds of the policies given with --policy; 0: each policy's own")
	f.DurationVar(&o.sample, "sample", 0, "time between two observations of the host; default: the scenario's, or 1s")
	f.IntVar(&o.seed, "seed", 0, "seed of everything random; default: the scenario's")
	f.IntVar(&o.parallel, "parallel", 0, "VMs that may have a move under way at the same time; default: the scenario's, or 4")
	f.Float64Var(&o.size, "packet-size", trace.DefaultPacketSize, "mean `bytes` per packet, for traces with bytes only")
	f.Float64Var(&o.lineRate, "line-rate", 400, "`Gbit/s` above which a row of a trace is rejected as absurd")
	f.StringVarP(&o.output, "output", "o", "table", "`format`: table for people, json or csv for programs")
	f.StringVar(&o.html, "html", "", "also write a report with plots to this `file`")
	f.StringVar(&o.decisions, "decisions", "", "also write every plug and unplug, as CSV, to this `file`")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "show progress even if standard error is not a terminal")
	f.BoolVar(&o.quick, "no-optimum", false, "skip the best placement: no scores, but much faster")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "csv"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("policy", listOf(placement.Names()))
	_ = c.RegisterFlagCompletionFunc("allocators", listOf(scenario.AllocatorNames()))
	c.RunE = func(c *cobra.Command, args []string) error { return a.sim(c, args, &o) }
	return c
}

func (a *app) sim(c *cobra.Command, args []string, o *simOptions) error {
	if err := o.check(c, args); err != nil {
		return usage(c, err)
	}
	for flag, path := range map[string]string{"html": o.html, "decisions": o.decisions} {
		if err := canWrite(c, flag, path); err != nil {
			return err
		}
	}
	meter := newProgress(a.std.Err, o.verbose)
	defer meter.end()
	r, err := interruptible(c.Context(), func() (*scenario.Result, error) {
		return o.result(c.Context(), c, args, meter, a.std.Err)
	})
	if err != nil {
		return err
	}
	meter.end()
	return o.write(a.std.Out, r, reportOf(a, c, args, report.HTML))
}

// interruptible returns when ctx ends, whatever f is doing: reading a long file, or searching. What f has started ends with
// the process.
func interruptible[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// result runs the simulation that the command line describes.
func (o *simOptions) result(ctx context.Context, c *cobra.Command, args []string, m *progress, notes io.Writer) (*scenario.Result, error) {
	s, err := o.scenario(c, args, m, notes)
	if err != nil {
		return nil, err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent()))
	return s.Run(ctx, scenario.RunOptions{Progress: m.show, NoOptimum: o.quick})
}

// gcPercent makes garbage collections rare, since nearly everything that a run allocates dies young. With a large trace in
// memory, garbage must not grow in proportion to it.
func gcPercent() int {
	const garbage = 512 << 20 // bytes
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(min(800, max(100, 100*garbage/max(1, m.HeapAlloc)))) //nolint:gosec // at most 800
}

func (o *simOptions) check(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0 && o.trace == "":
		return errors.New("name a scenario file, or a trace with --trace")
	case len(args) == 1 && o.trace != "":
		return errors.New("name a scenario file or --trace, not both")
	case len(args) == 1 && looksLikeTrace(args[0]):
		return fmt.Errorf("%s looks like a trace, not a scenario; run it with --trace %s", args[0], args[0])
	case o.trace != "" && looksLikeScenario(o.trace):
		return fmt.Errorf("%s looks like a scenario, not a trace; name it without --trace", o.trace)
	case o.trace != "" && o.vfs == 0 && !c.Flags().Changed("vfs") && !trace.IsRecording(o.trace):
		return errors.New("give the number of VFs with --vfs")
	case o.output != "table" && o.output != "json" && o.output != "csv":
		return fmt.Errorf("-o %s: want table, json or csv", o.output)
	}
	if err := o.bounds(c); err != nil {
		return err
	}
	for _, p := range o.policies {
		for _, e := range scenario.CheckPolicy(p, nil) {
			return fmt.Errorf("--policy: %s; %s", e.Text, e.Remedy)
		}
	}
	for _, n := range o.allocs {
		for _, e := range scenario.CheckAllocator(n) {
			return fmt.Errorf("--allocators: %s; %s", e.Text, e.Remedy)
		}
	}
	return nil
}

// bounds checks flags against the bounds of the corresponding keys of a scenario, if any.
func (o *simOptions) bounds(c *cobra.Command) error {
	return checkBounds(c,
		within("vfs", o.vfs, 0, 4096), within("seed", o.seed, 0, 2_000_000_000), within("parallel", o.parallel, 1, 1000),
		within("packet-size", o.size, 1, 65535), within("line-rate", o.lineRate, 0.001, 100_000),
		lasting("sample", o.sample, 100*time.Millisecond, time.Hour),
		lasting("interval", cmp.Or(o.interval, time.Second), 100*time.Millisecond, 24*time.Hour))
}

// scenario returns the scenario of the file, or one that plays the trace, modified by the flags.
func (o *simOptions) scenario(c *cobra.Command, args []string, m *progress, notes io.Writer) (*scenario.Scenario, error) {
	s, err := o.base(args, m, notes)
	if err != nil {
		return nil, err
	}
	if c.Flags().Changed("vfs") {
		if err := s.SetVFs(o.vfs); err != nil {
			return nil, usage(c, err)
		}
	}
	if o.sample > 0 {
		if o.sample > s.Duration {
			return nil, usage(c, fmt.Errorf("--sample %s is longer than the run of %s", o.sample, s.Duration))
		}
		s.Sample = o.sample
	}
	if o.parallel > 0 {
		s.Parallel = o.parallel
	}
	if c.Flags().Changed("seed") {
		s.Seed = o.seed
	}
	if len(o.allocs) > 0 {
		s.SetAllocators(o.allocs)
	}
	names := o.policies
	if s.Shares() && len(names) > 1 {
		return nil, usage(c, errors.New("--policy: a comparison of allocators uses a single policy; name one"))
	}
	if !s.Shares() && len(names) == 0 && len(s.Policies) == 0 {
		names = placement.Names()
	}
	if len(names) > 0 {
		s.SetPolicies(names, o.interval)
	}
	return s, nil
}

func (o *simOptions) base(args []string, m *progress, notes io.Writer) (*scenario.Scenario, error) {
	if len(args) == 1 {
		s, err := scenario.Open(args[0])
		if err == nil {
			for _, text := range s.Unused() {
				fmt.Fprintf(notes, "%s (warning)\n", lines(text, 0))
			}
		}
		return s, err
	}
	if trace.IsRecording(o.trace) {
		s, r, err := scenario.FromRecording(o.trace)
		if err == nil && len(r.Troubles()) > 0 {
			fmt.Fprint(notes, r.String())
		}
		return s, err
	}
	opts := trace.Options{
		PacketSize: o.size, LineRate: o.lineRate * 1e9,
		Progress: func(rows int) { m.text(fmt.Sprintf("reading %s: %d million rows", o.trace, rows/1e6)) },
	}
	set, err := trace.Load(o.trace, opts)
	if err != nil {
		return nil, err
	}
	m.end()
	if len(set.Report.Troubles()) > 0 {
		fmt.Fprint(notes, set.Report.String())
	}
	return scenario.FromTrace(o.trace, set, o.vfs), nil
}

// write prints the result and writes the requested files.
func (o *simOptions) write(w io.Writer, r *scenario.Result, html func(io.Writer, *scenario.Result) error) error {
	if err := toFile(o.decisions, r, report.Decisions); err != nil {
		return err
	}
	if err := toFile(o.html, r, html); err != nil {
		return err
	}
	switch o.output {
	case "json":
		return report.JSON(w, r)
	case "csv":
		return report.CSV(w, r)
	}
	return report.Table(w, r)
}

// canWrite checks before a long run that a file can be written, without changing it.
func canWrite(c *cobra.Command, flag, path string) error {
	switch {
	case !c.Flags().Changed(flag):
		return nil
	case path == "" || path == "-":
		return usage(c, fmt.Errorf("--%s %s: name a file; standard output is for -o", flag, visible(path)))
	}
	st, err := os.Stat(path)
	if err == nil && !st.Mode().IsRegular() && !st.IsDir() {
		return nil // a pipe must not be opened twice
	}
	f, bad := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666) //nolint:gosec // as os.Create does
	if bad != nil {
		var p *os.PathError
		if errors.As(bad, &p) {
			bad = p.Err
		}
		return fmt.Errorf("--%s %s: cannot be written: %w; name a file in a directory you can write to", flag, path, bad)
	}
	if errors.Is(err, os.ErrNotExist) {
		_ = os.Remove(path)
	}
	return f.Close()
}

// toFile writes a report to a file and removes it if writing fails.
func toFile[T any](name string, r T, write func(io.Writer, T) error) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name) //nolint:gosec // the user names the file
	if err != nil {
		return err
	}
	err = write(f, r)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = os.Remove(name)
	}
	return err
}

// progress is a line on a terminal that shows the progress of a long run.
type progress struct {
	mu    sync.Mutex
	w     io.Writer // nil: silent
	last  time.Time
	begun time.Time
	drawn bool
}

func newProgress(w io.Writer, always bool) *progress {
	p := &progress{begun: time.Now()}
	if always || IsTerminal(w) {
		p.w = w
	}
	return p
}

// show implements scenario.RunOptions.Progress.
func (p *progress) show(done float64, what string) {
	left := ""
	if took := time.Since(p.begun); done > 0.02 && done < 1 {
		left = fmt.Sprintf(", %s left", time.Duration(float64(took)*(1-done)/done).Round(time.Second))
	}
	if done >= 1 {
		what = "finding the best placement"
	}
	p.text(fmt.Sprintf("%3.0f %% (%s%s)", 100*min(done, 1), what, left))
}

// text draws the line, at most a few times per second.
func (p *progress) text(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w == nil || time.Since(p.last) < 200*time.Millisecond || time.Since(p.begun) < 500*time.Millisecond {
		return
	}
	p.last, p.drawn = time.Now(), true
	s = printable(s)
	fmt.Fprintf(p.w, "\r%s%s", s, strings.Repeat(" ", max(0, 60-len(s))))
}

// end erases the line.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", 60))
		p.drawn = false
	}
}
