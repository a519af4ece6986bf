package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice/api/v1"
	"sluice/internal/edge/client"
)

// DefaultSocket and DefaultConfig are the daemon's default paths.
const (
	DefaultSocket = "/run/sluice/sluice.sock"
	DefaultConfig = "/etc/sluice/sluice.yaml"
)

// app is what the commands share.
type app struct {
	deps   Deps
	std    Streams
	socket string
}

// Main runs one command line, without the program's name, and returns its exit code.
func Main(ctx context.Context, args []string, std Streams, d Deps) int {
	root := Root(std, d)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	printError(std.Err, err)
	return exitCode(err)
}

// Root builds the command tree. The manual uses it too.
func Root(std Streams, d Deps) *cobra.Command {
	a := &app{deps: d, std: std}
	root := &cobra.Command{
		Use:   "sluice",
		Short: "give a KVM host's SR-IOV virtual functions to the VMs that gain most",
		Long: `Sluice decides which virtual machines of a KVM host get the few SR-IOV virtual
functions (VFs) of its network cards, and moves the VFs by hot-plug. Each VF is plugged
beside a virtio NIC that always stays, so that no machine loses its network.

sluice run is the daemon. It only observes, and says what it would do, until sluice.yaml
has mode: enforce. The other commands ask it over its unix socket: root may do everything,
the group sluice may read, and sluice.yaml can give others more.

` + about,
		Example: `sluice demo                 # see it at work on a simulated host
sluice status               # the state of the host in a few lines
sluice explain web-1        # why web-1 has a VF, or has none
sluice drain --wait 2m      # take all VFs back before maintenance`,
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs,
		RunE: subcommandWanted,
	}
	root.PersistentFlags().StringVar(&a.socket, "socket", DefaultSocket, "unix `path` of the daemon's socket")
	root.AddCommand(
		a.runCommand(), a.demoCommand(), a.dashboardCommand(),
		a.statusCommand(), a.vmsCommand(), a.vfsCommand(), a.explainCommand(), a.eventsCommand(), a.bwCommand(),
		a.capacityCommand(), a.fleetCommand(), a.planCommand(), a.topCommand(),
		a.pinCommand(), a.releaseCommand(), a.unpinCommand(), a.drainCommand(), a.slaCommand(), a.vpfCommand(), a.prepareCommand(),
		a.overridesCommand(), a.reloadCommand(),
		a.doctorCommand(), a.fsckCommand(), a.qualifyCommand(), a.configCommand(), a.sysdumpCommand(),
		a.simCommand(), a.reproduceCommand(), a.whatifCommand(), a.recordCommand(),
		a.versionCommand(),
		a.hookCommand(),
	)
	root.SetIn(std.In)
	root.SetOut(std.Out)
	root.SetErr(std.Err)
	root.SetFlagErrorFunc(flagError)
	root.InitDefaultCompletionCmd()
	describeCompletion(root)
	root.SetHelpCommand(helpCommand())
	return root
}

// describeCompletion replaces the texts of cobra's completion command.
func describeCompletion(root *cobra.Command) {
	c, _, err := root.Find([]string{"completion"})
	if err != nil {
		return
	}
	c.Short = "print a completion script for a shell"
	c.Long = `Prints a script for bash, zsh or fish with which the tab key completes commands, options
and the names of VMs, which it gets from the daemon.`
	c.Example = `sluice completion bash > /etc/bash_completion.d/sluice
sluice completion zsh > "${fpath[1]}/_sluice"
sluice completion fish > ~/.config/fish/completions/sluice.fish`
	c.Args, c.RunE = cobra.ArbitraryArgs, subcommandWanted
	for _, sub := range c.Commands() {
		if sub.Name() == "powershell" { // not for this platform
			c.RemoveCommand(sub)
		}
		sub.Short = "print the script for " + sub.Name()
	}
}

// called returns how a user calls a command, without the program's name.
func called(c *cobra.Command) string {
	return strings.TrimPrefix(c.CommandPath(), "sluice ")
}

// usage wraps an error in the command line of c.
func usage(c *cobra.Command, err error) error {
	help := "sluice help"
	if name := strings.TrimPrefix(c.CommandPath(), "sluice"); name != "" {
		help += name
	}
	return &usageError{err: err, help: help}
}

// subcommandWanted runs for a command that only groups others.
func subcommandWanted(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	text := fmt.Sprintf("there is no command %q", args[0])
	if c.HasParent() {
		text = fmt.Sprintf("%s has no command %q", called(c), args[0])
	}
	c.SuggestionsMinimumDistance = 2
	if s := c.SuggestionsFor(args[0]); len(s) > 0 {
		text += fmt.Sprintf(" (did you mean %s?)", strings.Join(s, " or "))
	}
	return usage(c, errors.New(text))
}

// noArgs rejects arguments.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(c, fmt.Errorf("%s takes no arguments, but got %q", called(c), args[0]))
	}
	return nil
}

// oneVM requires exactly one VM.
func oneVM(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0 || args[0] == "":
		return usage(c, fmt.Errorf("%s needs the name or UUID of a VM", called(c)))
	case len(args) > 1:
		return usage(c, fmt.Errorf("%s takes one VM at a time, but got %d", called(c), len(args)))
	}
	return nil
}

// someVMs requires at least one VM, or --all.
func someVMs(c *cobra.Command, args []string) error {
	all := c.Flags().Lookup("all")
	switch given := all != nil && all.Changed; {
	case given && len(args) > 0:
		return usage(c, errors.New("--all and the names of VMs exclude each other; leave one out"))
	case !given && (len(args) == 0 || slices.Contains(args, "")):
		return usage(c, fmt.Errorf("%s needs the name or UUID of a VM", called(c)))
	}
	return nil
}

// client returns a client for the daemon.
func (a *app) client() *client.Client { return client.New(a.socket) }

// pathOf returns the VF of a VM, or "virtio".
func pathOf(vm api.VM) string { return cmp.Or(vm.VF, "virtio") }
