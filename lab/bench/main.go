package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the command-line options.
type options struct {
	scenarios  []string
	allocators []string
	period     time.Duration
	repeats    int
	rtt        time.Duration
	cc         string
	enforcer   string
	json       string
	trace      string
}

func main() {
	opts, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if !isolated() {
		os.Exit(isolate())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = enter()
	if err == nil {
		err = measure(ctx, opts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to undo
	}
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("bandwidth", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintln(f.Output(), "usage: scripts/measure bandwidth [flags] [scenario or pattern ...]\nscenarios:")
		for _, sc := range known() {
			fmt.Fprintf(f.Output(), "  %-15s %s\n", sc[0], sc[1])
		}
		f.PrintDefaults()
	}
	allocators := f.String("allocators", "none,static,daqs,dbavm,waterfill",
		"to run side by side; informed is told a period later what the guests want")
	f.DurationVar(&o.period, "period", 200*time.Millisecond, "between two ticks of the controller")
	f.IntVar(&o.repeats, "repeats", 1, "of each run; the median counts")
	f.DurationVar(&o.rtt, "rtt", 100*time.Microsecond, "round-trip time; from 1ms on answers are delayed")
	f.StringVar(&o.cc, "cc", "cubic", "congestion control of all flows")
	f.StringVar(&o.enforcer, "enforcer", "tc", "what sets limits: tc in each guest, or guest-htb, which is the daemon's way through qemu-ga")
	f.StringVar(&o.json, "json", "", "file to add each run's figures to, one object a line")
	f.StringVar(&o.trace, "trace", "", "file for what each tick of the controller saw and decided")
	// Flags may come before and after the scenarios.
	for len(args) > 0 {
		if err := f.Parse(args); err != nil {
			return o, err
		}
		if args = f.Args(); len(args) > 0 {
			o.scenarios, args = append(o.scenarios, args[0]), args[1:]
		}
	}
	o.allocators = strings.Split(*allocators, ",")
	if o.enforcer != "tc" && o.enforcer != "guest-htb" {
		return o, fmt.Errorf("there is no enforcer %q; there are tc and guest-htb", o.enforcer)
	}
	o.scenarios, err = expand(o.scenarios)
	return o, err
}

// expand returns the names that patterns such as cold-* mean.
func expand(patterns []string) (names []string, err error) {
	for _, p := range patterns {
		before := len(names)
		for _, sc := range known() {
			if ok, err := path.Match(p, sc[0]); err != nil {
				return nil, fmt.Errorf("scenario %q: %w", p, err)
			} else if ok {
				names = append(names, sc[0])
			}
		}
		if len(names) == before {
			return nil, fmt.Errorf("there is no scenario %q; --help lists them", p)
		}
	}
	return names, nil
}

// known returns the name and the meaning of every scenario.
func known() (out [][2]string) {
	for _, sc := range scenarios() {
		out = append(out, [2]string{sc.name, sc.about})
	}
	for _, sc := range tapScenarios() {
		out = append(out, [2]string{sc.name, sc.about})
	}
	return append(out, [2]string{"tap-period", "cost of the controller by its period"},
		[2]string{"tap-drops", "cost of a dropped packet by place"})
}

// measure runs the requested scenarios, by default all, and prints tables.
func measure(ctx context.Context, o options) error {
	onTaps := func(name string) bool { return strings.HasPrefix(name, "tap-") }
	taps := slices.DeleteFunc(slices.Clone(o.scenarios), func(name string) bool { return !onTaps(name) })
	if len(taps) < len(o.scenarios) || len(o.scenarios) == 0 {
		if err := measureTCP(ctx, o); err != nil {
			return err
		}
	}
	if len(taps) > 0 || len(o.scenarios) == 0 {
		return measureTaps(ctx, o, taps)
	}
	return nil
}

// measureTCP runs the scenarios with real TCP.
func measureTCP(ctx context.Context, o options) error {
	var run []scenario
	most := 0
	for _, sc := range scenarios() {
		if len(o.scenarios) == 0 && !sc.named || slices.Contains(o.scenarios, sc.name) {
			run = append(run, sc)
			most = max(most, len(sc.guests))
		}
	}
	b, err := setUp(ctx, most, o)
	if err != nil {
		return err
	}
	out := report{o: o}
	for i := range run {
		for _, allocator := range o.allocators {
			if err := out.repeat(ctx, b, &run[i], allocator); err != nil {
				return err
			}
		}
	}
	return nil
}

// setUp creates the network, the sink and the enforcer for n guests.
func setUp(ctx context.Context, n int, o options) (*bench, error) {
	b := &bench{period: o.period, cc: o.cc}
	var err error
	if o.trace != "" {
		if b.trace, err = os.Create(o.trace); err != nil {
			return nil, err
		}
	}
	if b.bed, err = newBed(n, o.rtt); err != nil {
		return nil, err
	}
	if b.sink, err = newSink(n); err != nil {
		return nil, err
	}
	switch o.enforcer {
	case "guest-htb":
		b.by, err = newAgents(ctx, n)
	default:
		b.by, err = newTCBatch(n)
	}
	return b, err
}
