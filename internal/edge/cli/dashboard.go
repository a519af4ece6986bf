package cli

import (
	"context"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"sluice/internal/edge/dashboard"
)

func (a *app) dashboardCommand() *cobra.Command {
	var open, print bool
	var port int
	c := &cobra.Command{
		Use: "dashboard", Short: "show the daemon's page in a browser",
		Long: `Shows the page of the daemon: the host at a glance, which VM held which VF when, every VM
with the reason for its path, and what other policies would have done. The page is
read-only.

The page is forwarded from the daemon's unix socket with your own rights, to a port of
127.0.0.1 that other users cannot use: the printed link works once, for the browser that
opens it first. Ctrl-C ends it. To see the page of a remote host, forward the port:
ssh -L 8642:127.0.0.1:8642 HOST sluice dashboard --port 8642`,
		Example: `sluice dashboard
sluice dashboard --open
sluice dashboard --print --port 8642`,
		Args: noArgs,
	}
	c.Flags().BoolVar(&open, "open", false, "open the page in the desktop's browser")
	c.Flags().BoolVar(&print, "print", false, "print only the link, for programs")
	c.Flags().IntVar(&port, "port", 0, "`port` of 127.0.0.1; 0: any free port")
	c.MarkFlagsMutuallyExclusive("open", "print")
	c.RunE = func(c *cobra.Command, _ []string) error {
		const most = 65535
		if port < 0 || port > most {
			return usage(c, fmt.Errorf("--port must be from 0 to %d", most))
		}
		if _, err := a.client().Status(c.Context()); err != nil {
			return err
		}
		return a.dashboard(c.Context(), port, open, print)
	}
	return c
}

// dashboard serves the page until the user interrupts it, which is not an error.
func (a *app) dashboard(ctx context.Context, port int, open, print bool) error {
	s, err := dashboard.New(a.socket, port)
	if err != nil {
		return err
	}
	return a.serve(ctx, s, open, print)
}

// serve prints the link, opens the page if requested, and serves it until ctx ends.
func (a *app) serve(ctx context.Context, s *dashboard.Server, open, print bool) error {
	head, tail := "The page is at ", "\nThe link works once. Press Ctrl-C to quit.\n"
	if print {
		head, tail = "", "\n"
	}
	fmt.Fprint(a.std.Out, head, s.URL(), tail)
	if open {
		var opening sync.WaitGroup
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer opening.Wait() // wait until it has removed its file
		defer cancel()
		opening.Go(func() {
			if err := dashboard.Open(ctx, s.URL()); err != nil {
				fmt.Fprintf(a.std.Err, "sluice: %v; open the link above\n", err)
			}
		})
	}
	return s.Run(ctx)
}
