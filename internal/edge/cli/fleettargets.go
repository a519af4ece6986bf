package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/edge/fleet"
)

func (a *app) fleetTargetsCommand(f *fleetFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "targets", Short: "print the hosts of the fleet as targets for Prometheus",
		Long: `Prints all hosts that publish, in the format of Prometheus' file_sd_configs, or with
--listen answers each request of its http_sd_configs with them, until interrupted. A target is
the name that the host publishes, so Prometheus must be able to resolve it, with the port of
the daemons' api.listen. While Placement is away the answer is 503, and Prometheus keeps the
targets that it has.`,
		Example: "sluice fleet targets --port 9178\nsluice fleet targets --listen 127.0.0.1:9180", Args: noArgs,
	}
	port := c.Flags().Int("port", 9178, "`port` of the daemons' api.listen")
	listen := c.Flags().String("listen", "", "serve them over HTTP at this `address`")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *port < 1 || *port > 65535 {
			return usage(c, fmt.Errorf("--port %d: want 1 to 65535", *port))
		}
		l, err := a.ledger(c.Context(), f)
		if err != nil {
			return err
		}
		if *listen != "" {
			return a.serveTargets(c.Context(), *listen, targetsHandler(l, *port))
		}
		hosts, err := l.Hosts(c.Context())
		if err != nil {
			return err
		}
		e := json.NewEncoder(a.std.Out)
		e.SetIndent("", "  ")
		return e.Encode(fleet.Targets(hosts, *port))
	}
	return c
}

// targetsHandler answers with what the ledger says at that time.
func targetsHandler(l fleet.Ledger, port int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts, err := l.Hosts(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(fleet.Targets(hosts, port))
	})
}

// serveTargets serves until ctx ends.
func (a *app) serveTargets(ctx context.Context, address string, h http.Handler) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	a.tell("targets at http://" + l.Addr().String())
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// completeHost completes names of hosts of the fleet.
func (a *app) completeHost(f *fleetFlags) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		if l, err := a.ledger(c.Context(), f); err == nil {
			hosts, _ := l.Hosts(c.Context())
			for _, h := range hosts {
				names = append(names, h.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeOneHost completes the one argument of a command that takes a host.
func (a *app) completeOneHost(f *fleetFlags) cobra.CompletionFunc {
	complete := a.completeHost(f)
	return func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(c, args, prefix)
	}
}

// hostArgs requires one host, or at most one where none is enough.
func hostArgs(least int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usage(c, fmt.Errorf("%s needs the name of a host", called(c)))
		case len(args) > 1:
			return usage(c, fmt.Errorf("%s takes one host at a time, but got %d", called(c), len(args)))
		}
		return nil
	}
}
