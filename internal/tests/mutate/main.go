// Mutate measures how much the tests would notice: it makes small changes to a package, one at a time, and runs tests on each. A change
// that no test notices survives; the score is the share that did not survive. It does not touch the working tree.
//
//	go run ./internal/tests/mutate -n 100 ./internal/control/plan ./internal/control/plan ./internal/research/sim
//
// It mutates the first package, and runs the tests of all packages that follow, in order, until one fails. Without further packages it
// runs the tests of the first.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	r := runner{out: os.Stdout}
	flag.IntVar(&r.most, "n", 0, "try only so many mutants, drawn by lot (0: all)")
	flag.Uint64Var(&r.seed, "seed", 1, "of the lots")
	flag.StringVar(&r.tags, "tags", "", "build tags")
	flag.StringVar(&r.match, "file", "", "only files whose name contains this")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: mutate [flags] PACKAGE [TESTS...]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	tests := flag.Args()[1:]
	if len(tests) == 0 {
		tests = flag.Args()[:1]
	}
	_, err := r.run(ctx, flag.Arg(0), tests)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// runner tries mutants.
type runner struct {
	most  int
	seed  uint64
	tags  string
	match string
	dir   string // where go runs; "": the current directory
	out   interface{ Write([]byte) (int, error) }
}

// score counts the mutants by outcome.
type score struct {
	all, killed, slow, invalid int
	survived                   []mutant
}

func (s score) String() string {
	noticed := s.killed + s.slow
	total := noticed + len(s.survived)
	return fmt.Sprintf("%d of %d mutants tried, %d do not compile; %d of %d noticed (%d by a timeout): score %.1f %%",
		total+s.invalid, s.all, s.invalid, noticed, total, s.slow, 100*float64(noticed)/float64(max(1, total)))
}

func (r *runner) run(ctx context.Context, pkg string, tests []string) (score, error) {
	all, err := r.find(ctx, pkg)
	if err != nil {
		return score{}, err
	}
	s := score{all: len(all)}
	limit, err := r.baseline(ctx, tests)
	if err != nil {
		return s, err
	}
	rand.New(rand.NewPCG(r.seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if r.most > 0 {
		all = all[:min(r.most, len(all))]
	}
	for _, m := range all {
		got, err := r.try(ctx, m, tests, limit)
		if err != nil {
			return s, err
		}
		switch got {
		case "killed":
			s.killed++
		case "slow":
			s.slow++
		case "invalid":
			s.invalid++
		default:
			s.survived = append(s.survived, m)
			fmt.Fprintf(r.out, "survived  %s:%d  %s\n", filepath.Base(m.File), m.Line, m.What)
		}
	}
	_, err = fmt.Fprintf(r.out, "%s: %s\n", pkg, s)
	return s, err
}

// find lists the mutants of a package.
func (r *runner) find(ctx context.Context, pkg string) ([]mutant, error) {
	out, err := r.command(ctx, "list", "-tags", r.tags, "-json=Dir,GoFiles", pkg).Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", pkg, err)
	}
	var listed struct {
		Dir     string
		GoFiles []string
	}
	if err := json.Unmarshal(out, &listed); err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range listed.GoFiles {
		if !strings.Contains(name, r.match) {
			continue
		}
		path := filepath.Join(listed.Dir, name)
		src, err := os.ReadFile(path) //nolint:gosec // the developer names the package
		if err != nil {
			return nil, err
		}
		found, err := mutants(path, src)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// baseline runs the tests on the unchanged code, and returns how long a mutant may take.
func (r *runner) baseline(ctx context.Context, tests []string) (time.Duration, error) {
	for _, t := range tests {
		if out, err := r.test(ctx, t, time.Hour, ""); err != nil {
			return 0, fmt.Errorf("%s fails without a mutant:\n%s", t, out)
		}
	}
	start := time.Now()
	for _, t := range tests {
		if out, err := r.test(ctx, t, time.Hour, ""); err != nil {
			return 0, fmt.Errorf("%s fails now and then:\n%s", t, out)
		}
	}
	return 20*time.Second + 5*time.Since(start), nil
}

// try returns the outcome for a mutant: killed, slow, invalid or survived.
func (r *runner) try(ctx context.Context, m mutant, tests []string, limit time.Duration) (string, error) {
	src, err := os.ReadFile(m.File)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	changed, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{m.File: changed}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(changed, m.apply(src), 0o600), os.WriteFile(overlay, text, 0o600)); err != nil {
		return "", err
	}
	for _, t := range tests {
		out, err := r.test(ctx, t, limit, overlay)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err == nil:
		case strings.Contains(out, "[build failed]"):
			return "invalid", nil
		case strings.Contains(out, "panic: test timed out"):
			return "slow", nil
		default:
			return "killed", nil
		}
	}
	return "survived", nil
}

func (r *runner) test(ctx context.Context, pkg string, limit time.Duration, overlay string) (string, error) {
	args := []string{"test", "-tags", r.tags, "-short", "-failfast", "-count=1", "-vet=off", "-timeout", limit.String()}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	out, err := r.command(ctx, append(args, pkg)...).CombinedOutput()
	return string(out), err
}

func (r *runner) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = r.dir
	return c
}
