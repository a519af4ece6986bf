package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"sluice/lab/vpflab"
)

func vpfCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vpf",
		Short: "A host for virtual PFs in namespaces of this machine, and its guests",
	}
	cmd.AddCommand(vpfUpCmd(), vpfRunCmd(), vpfGuestCmd(), vpfShellCmd())
	return cmd
}

func vpfUpCmd() *cobra.Command {
	return leaf("up", "Start a host with the VMs node and peer, shut off; it runs until interrupted", cobra.NoArgs,
		func(c *cobra.Command, _ []string) error {
			h, err := vpflab.Open(c.Context(), vpflab.Options{Progress: os.Stderr})
			if err != nil {
				return err
			}
			err = serve(c.Context(), h)
			return errors.Join(err, h.Close())
		})
}

func serve(ctx context.Context, h *vpflab.Host) error {
	if err := h.PutPrograms(ctx); err != nil {
		return err
	}
	for _, g := range []vpflab.Guest{vpflab.Node, vpflab.Peer} {
		if err := h.Define(ctx, g); err != nil {
			return err
		}
	}
	if err := h.Publish(); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "lab: up until interrupted. In another terminal: labctl vpf shell | labctl vpf run CMD |",
		"labctl vpf guest VM CMD")
	<-ctx.Done()
	return nil
}

func vpfRunCmd() *cobra.Command {
	return leaf("run CMD...", "Run a shell command on the host", cobra.MinimumNArgs(1), func(c *cobra.Command, args []string) error {
		return inVPFHost(c.Context(), strings.Join(args, " "), false)
	})
}

func vpfShellCmd() *cobra.Command {
	return leaf("shell", "A shell on the host", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		return inVPFHost(c.Context(), "exec bash -i", true)
	})
}

func vpfGuestCmd() *cobra.Command {
	return leaf("guest VM CMD...", "Run a shell command in a running guest, once it has booted", cobra.MinimumNArgs(2),
		func(c *cobra.Command, args []string) error {
			h, err := vpflab.Attach()
			if err != nil {
				return err
			}
			defer h.Release()
			if err := h.AwaitBoot(c.Context(), args[0], ""); err != nil {
				return err
			}
			out, err := h.GuestExec(c.Context(), args[0], strings.Join(args[1:], " "))
			fmt.Print(out)
			return err
		})
}

// inVPFHost connects this terminal to a command on the host.
func inVPFHost(ctx context.Context, script string, terminal bool) error {
	h, err := vpflab.Attach()
	if err != nil {
		return err
	}
	cmd := h.Command(ctx, script)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if terminal {
		cmd.SysProcAttr.Setpgid = false // a process group of its own could not read from the terminal
		cmd.Cancel = nil
	}
	return cmd.Run()
}
