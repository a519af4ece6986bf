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
	return &cobra.Command{
		Use:   "up",
		Short: "Start a host that has the VMs node and peer, shut off, and stay until interrupted",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			h, err := vpflab.Open(c.Context(), vpflab.Options{Progress: os.Stderr})
			if err != nil {
				return err
			}
			err = serve(c.Context(), h)
			return errors.Join(err, h.Close())
		},
	}
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
	fmt.Fprintln(os.Stderr, "lab: up, until this is interrupted. In another terminal: labctl vpf shell | labctl vpf run CMD | labctl vpf guest VM CMD")
	<-ctx.Done()
	return nil
}

func vpfRunCmd() *cobra.Command {
	return &cobra.Command{
		Use:                "run CMD...",
		Short:              "Run a shell command on the host",
		Args:               cobra.MinimumNArgs(1),
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			return inVPFHost(c.Context(), strings.Join(args, " "), false)
		},
	}
}

func vpfShellCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "shell",
		Short: "A shell on the host",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return inVPFHost(c.Context(), "exec bash -i", true)
		},
	}
}

func vpfGuestCmd() *cobra.Command {
	return &cobra.Command{
		Use:                "guest VM CMD...",
		Short:              "Run a shell command in a guest that runs, once it has booted",
		Args:               cobra.MinimumNArgs(2),
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
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
		},
	}
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
