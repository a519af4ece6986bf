package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"sluice/internal/model"
)

// Exit codes of sluiced; sluice uses the same values with the same meaning.
const (
	exitError = 1
	exitUsage = 2
)

// gcPercent is the GOGC setting. The daemon produces little garbage, so half of the default costs no measurable time and saves
// 1.6 MB at 100 VMs.
const gcPercent = 50

// DefaultConfig is the default path of the configuration.
const DefaultConfig = "/etc/sluice/sluice.yaml"

// Main runs sluiced with the given arguments, without the program's name, until ctx ends, and returns the exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer, version string) int {
	o := Options{Version: version}
	f := flag.NewFlagSet("sluiced", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.Config, "config", DefaultConfig, "configuration `file`; conf.d/*.yaml beside it are read too")
	f.StringVar((*string)(&o.Mode), "mode", "", "`mode` that overrides the configuration: observe or enforce")
	f.StringVar(&o.Socket, "socket", "", "`path` of the unix socket; overrides api.socket in the configuration")
	f.BoolVar(&o.Lift, "lift", false, "when stopping, lift all limits, contracts too, whatever bandwidth.stop says")
	liftNow := f.Bool("lift-limits", false, "run no daemon: lift the allowances that a killed daemon left, with --lift also the limits of "+
		"SLAs, and exit")
	offline := f.Bool("offline", false, "observe the host once, print as JSON what a daemon would see and do, and change nothing")
	check := f.Bool("doctor", false, "check the host once, print as JSON what passes and what does not, and change nothing")
	prep := f.Bool("prepare", false, "run no daemon: change definitions of VMs as the JSON on standard input says (see docs/api.md, POST "+
		"/v1/prepare), and print what was changed")
	q := qualifyOptions{}
	f.StringVar(&q.pf, "qualify", "", "run no daemon: test what this `PF` and its driver can do, on VFs that nobody uses, print a report "+
		"as JSON, and exit")
	f.StringVar(&q.vm, "vm", "", "with --qualify: also have the daemon move this `VM` to a VF and back, and measure both paths; the daemon "+
		"is in enforce mode for it")
	f.StringVar(&q.address, "address", "", "with --vm: the VM's IPv4 `address`; default: what the host's ARP table says")
	f.Func("peer", "with --qualify: also fill the link to this `address`, where sluice qualify --receive runs, and measure what arrives; "+
		"may be given several times", func(s string) error {
		peer, err := parsePeer(s)
		q.peers = append(q.peers, peer)
		return err
	})
	f.BoolVar(&q.save, "save", false, "with --qualify: save the report, which the daemon uses from its next reload or start on")
	f.BoolVar(&q.restore, "qualify-restore", false, "run no daemon: restore what a killed --qualify has left, and exit")
	show := f.Bool("version", false, "print the version")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	case f.NArg() > 0:
		return fail(stderr, exitUsage, fmt.Errorf("unexpected argument %q: sluiced takes only flags; see `sluiced --help`", f.Arg(0)))
	case o.Mode != "" && o.Mode != model.ModeObserve && o.Mode != model.ModeEnforce:
		return fail(stderr, exitUsage, fmt.Errorf("--mode must be observe or enforce, not %q", o.Mode))
	}
	var err error
	switch {
	case *show:
		_, err = fmt.Fprintln(stdout, "sluiced", version)
	case *liftNow:
		err = LiftLimits(ctx, o)
	case *offline:
		err = printOffline(ctx, stdout, o.Config)
	case *check:
		err = json.NewEncoder(stdout).Encode(Doctor(ctx, o.Config))
	case *prep:
		err = PrepareOffline(ctx, o.Config, os.Stdin, stdout)
	case q.restore:
		err = restoreQualify(ctx, stdout, o)
	case q.pf != "":
		err = printQualify(ctx, stdout, stderr, o, q)
	default:
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(gcPercent)
		}
		err = Run(ctx, o)
	}
	return fail(stderr, exitError, err)
}

func printOffline(ctx context.Context, w io.Writer, path string) error {
	seen, err := Offline(ctx, path)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(seen)
}

// fail prints an error and returns the exit code of the process.
func fail(w io.Writer, code int, err error) int {
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintf(w, "sluiced: %v\n", err)
	return code
}
