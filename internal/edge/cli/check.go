package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"sluice/internal/config"
	"sluice/internal/model"
)

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "work with sluice.yaml",
		Long: "The command check says whether the daemon would accept a configuration; show prints the\n" +
			"whole of one, with where each value comes from.",
		Example: "sluice config check /etc/sluice/sluice.yaml\nsluice config show",
		Args:    cobra.ArbitraryArgs, RunE: subcommandWanted,
	}
	c.AddCommand(a.configCheckCommand(), a.configShowCommand())
	return c
}

// checked is the output of `config check -o json`.
type checked struct {
	OK       bool            `json:"ok"`
	Files    []string        `json:"files,omitempty"`
	PFs      int             `json:"pfs"`
	Rules    int             `json:"rules"`
	Errors   []*config.Error `json:"errors,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
}

func (a *app) configCheckCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "check [FILE]", Short: "check a configuration; print each mistake with its line",
		Long: `Reads FILE (default: ` + DefaultConfig + `) and conf.d/*.yaml beside it as the
daemon would, and prints every mistake with its line and remedy. Only the daemon and
sluice doctor check whether the PFs exist.`,
		Example: "sluice config check\nsluice config check ./sluice.yaml -o json",
	}
	o := outputFlag(c)
	path := fileArg(c, "check")
	c.RunE = func(_ *cobra.Command, args []string) error {
		cfg, err := config.Load(path(args), a.deps.Known)
		r := checked{OK: err == nil, Errors: config.Errors(err)}
		if err == nil {
			r.Files, r.PFs, r.Rules, r.Warnings = cfg.Files(), len(cfg.PFs), len(cfg.VMs), cfg.Warnings()
		}
		if e := show(a.std.Out, o, r, printChecked); e != nil {
			return e
		}
		if err != nil {
			return errPrinted
		}
		return nil
	}
	return c
}

// fileArg makes a command take one configuration, as FILE or --config, and returns which.
func fileArg(c *cobra.Command, verb string) func(args []string) string {
	path := c.Flags().String("config", DefaultConfig, "`file` to "+verb+", as sluice run takes it; the same as FILE")
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 1 || len(args) == 1 && c.Flags().Changed("config") {
			return usage(c, errors.New("name one file only; fragments in conf.d beside it are read too"))
		}
		return nil
	}
	return func(args []string) string {
		if len(args) == 1 {
			return args[0]
		}
		return *path
	}
}

func (a *app) configShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "show [FILE]", Short: "print the whole configuration, with where each value comes from",
		Long: `Reads FILE (default: ` + DefaultConfig + `) and conf.d/*.yaml beside it, and prints
one sluice.yaml with the same effect: defaults filled in, and behind each value the line
that sets it. A daemon that starts or reloads now has this configuration; one that runs
has what the files said at its last reload. What was set at run time is in sluice
overrides.`,
		Example: "sluice config show\nsluice config show ./sluice.yaml -o json",
	}
	o := outputFlag(c)
	path := fileArg(c, "show")
	c.RunE = func(_ *cobra.Command, args []string) error {
		cfg, err := config.Load(path(args), a.deps.Known)
		if err != nil {
			return err
		}
		list := cfg.Settings()
		if o.json { // lines without a key are YAML's
			list = slices.DeleteFunc(list, func(s config.Setting) bool { return s.Key == "" })
		}
		return show(a.std.Out, o, list, config.WriteSettings)
	}
	return c
}

func printChecked(w io.Writer, r checked) {
	for _, e := range r.Errors {
		fmt.Fprintln(w, e)
	}
	for _, s := range r.Warnings {
		fmt.Fprintf(w, "%s (warning)\n", s)
	}
	if r.OK {
		fmt.Fprintf(w, "ok: %s, %s, %s\n", model.Plural(len(r.Files), "file"), model.Plural(r.PFs, "PF"), model.Plural(r.Rules, "rule"))
		return
	}
	fmt.Fprintf(w, "%s; the daemon would reject this\n", model.Plural(len(r.Errors), "error"))
}

// version is the output of `sluice version -o json`.
type version struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`

	Programs []program `json:"programs,omitempty"` // with --check
}

// program is another program of Sluice.
type program struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Remedy  string `json:"remedy,omitempty"` // what to do if its version is another or unknown
}

func (a *app) versionCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "version", Short: "print the version",
		Long: `Prints the version of this program, and the Go version and platform of its build. With
--check it also asks the installed sluiced and the running daemon, and ends with exit code 3
if these differ: after an update the daemon must be restarted.`,
		Example: "sluice version -o json\nsluice version --check", Args: noArgs,
	}
	o := outputFlag(c)
	check := c.Flags().Bool("check", false, "compare with the versions of the installed sluiced and of the running daemon")
	c.RunE = func(c *cobra.Command, _ []string) error {
		v := version{Version: a.deps.Version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
		var same error
		if *check {
			v.Programs = a.programs(c.Context())
			if slices.ContainsFunc(v.Programs, func(p program) bool { return p.Remedy != "" }) {
				same = errFindings
			}
		}
		if err := show(a.std.Out, o, v, printVersion); err != nil {
			return err
		}
		return same
	}
	return c
}

// programs returns the versions of sluiced as installed and as it runs.
func (a *app) programs(ctx context.Context) []program {
	installed, daemon := program{Name: "installed sluiced"}, program{Name: "running daemon"}
	err := runDaemon(ctx, nil, func(r io.Reader) error {
		_, err := fmt.Fscanf(r, "sluiced %s", &installed.Version)
		return err
	}, "--version")
	switch {
	case err != nil:
		installed.Remedy = err.Error()
	case installed.Version != a.deps.Version:
		installed.Remedy = "install sluice and sluiced of the same version"
	}
	s, err := a.client().Status(ctx)
	daemon.Version = s.Version
	switch {
	case err != nil:
		daemon.Remedy = err.Error()
	case installed.Version != "" && daemon.Version != installed.Version:
		daemon.Remedy = "systemctl restart sluice: VFs stay where they are"
	case daemon.Version != a.deps.Version:
		daemon.Remedy = "use the sluice of the daemon's version"
	}
	return []program{installed, daemon}
}

func printVersion(w io.Writer, v version) {
	fmt.Fprintf(w, "sluice %s (%s %s/%s)\n", v.Version, v.Go, v.OS, v.Arch)
	for _, p := range v.Programs {
		fmt.Fprintf(w, "%s: %s\n", p.Name, printable(cmp.Or(p.Version, "unknown")))
		if p.Remedy != "" {
			fmt.Fprintf(w, "    -> %s\n", lines(p.Remedy, 7))
		}
	}
}
