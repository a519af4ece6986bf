// Labctl builds the lab and runs one interactively: `labctl up`, `labctl shell`; `labctl vpf up` for virtual PFs.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"sluice/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	default:
		fmt.Fprintln(os.Stderr, "labctl:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "labctl",
		Short:         "An emulated host with SR-IOV, to try things on",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(buildCmd(), upCmd(), downCmd(), runCmd(), guestCmd(), putCmd(), shellCmd(), logsCmd(), vpfCmd())
	return root
}

// action is what a command does with its arguments.
type action = func(c *cobra.Command, args []string) error

// leaf returns a command without flags.
func leaf(use, short string, args cobra.PositionalArgs, do action) *cobra.Command {
	// What follows CMD are flags of that command.
	return &cobra.Command{Use: use, Short: short, Args: args, RunE: do, DisableFlagParsing: strings.HasSuffix(use, "CMD...")}
}

func buildCmd() *cobra.Command {
	return leaf("build", "Build image and snapshot, unless the cache has them", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		return lab.Build(c.Context(), os.Stderr)
	})
}

func upCmd() *cobra.Command {
	var guests []string
	cmd := leaf("up", "Start a lab that stays until `labctl down`", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if h, err := lab.Attach(c.Context()); err == nil {
			h.Detach()
			fmt.Fprintln(os.Stderr, "lab: one is up already; `labctl down` ends it")
			return nil
		}
		h, err := lab.Open(c.Context(), lab.Options{Guests: guests, Progress: os.Stderr, Detached: true})
		if err != nil {
			return err
		}
		h.Detach()
		fmt.Fprintln(os.Stderr, "lab: up. Next: labctl shell | labctl run CMD | labctl guest VM CMD | labctl down")
		return nil
	})
	cmd.Flags().StringSliceVar(&guests, "guests", []string{"vm1", "vm2"}, "guests to resume; the others stay suspended")
	return cmd
}

func downCmd() *cobra.Command {
	return leaf("down", "End the lab", cobra.NoArgs, func(*cobra.Command, []string) error { return lab.Down() })
}

func runCmd() *cobra.Command {
	return leaf("run CMD...", "Run a shell command on the host", cobra.MinimumNArgs(1),
		withHost(func(c *cobra.Command, h *lab.Host, args []string) error {
			return ssh(c.Context(), h, strings.Join(args, " "))
		}))
}

func guestCmd() *cobra.Command {
	return leaf("guest VM CMD...", "Run a shell command in a guest", cobra.MinimumNArgs(2),
		withHost(func(c *cobra.Command, h *lab.Host, args []string) error {
			out, err := h.GuestExec(c.Context(), args[0], strings.Join(args[1:], " "))
			fmt.Print(out)
			return err
		}))
}

func putCmd() *cobra.Command {
	return leaf("put FILE PATH", "Copy a file to the host", cobra.ExactArgs(2),
		withHost(func(c *cobra.Command, h *lab.Host, args []string) error {
			return h.Put(c.Context(), args[0], args[1])
		}))
}

func shellCmd() *cobra.Command {
	return leaf("shell", "A shell on the host", cobra.NoArgs, withHost(func(c *cobra.Command, h *lab.Host, _ []string) error {
		return ssh(c.Context(), h, "")
	}))
}

func logsCmd() *cobra.Command {
	return leaf("logs", "Fetch logs and state of host and guests, and print where they are", cobra.NoArgs,
		withHost(func(c *cobra.Command, h *lab.Host, _ []string) error {
			err := h.Collect(c.Context())
			fmt.Println(h.ArtifactDir)
			return err
		}))
}

func withHost(do func(*cobra.Command, *lab.Host, []string) error) action {
	return func(c *cobra.Command, args []string) error {
		h, err := lab.Attach(c.Context())
		if err != nil {
			return err
		}
		defer h.Detach()
		return do(c, h, args)
	}
}

// ssh connects this terminal to a command or a shell on the host.
func ssh(ctx context.Context, h *lab.Host, script string) error {
	args := h.SSHArgs()
	if script != "" {
		args = append(args, script)
	}
	cmd := exec.CommandContext(ctx, "ssh", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
