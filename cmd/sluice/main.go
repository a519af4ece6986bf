// Command sluice queries and controls Sluice's daemon, and tries policies on simulated hosts. This file only wires
// dependencies; see internal/edge/cli for the commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"sluice/internal/base/version"
	"sluice/internal/config"
	"sluice/internal/control/bandwidth"
	"sluice/internal/control/placement"
	"sluice/internal/demo"
	"sluice/internal/edge/cli"
	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/openstack"
	"sluice/internal/edge/fleet/proxy"
)

// linked is set by the linker: -ldflags "-X main.linked=1.2.3".
var linked string

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills the process
	return cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, cli.Deps{
		Version: version.Or(linked),
		Demo:    demo.Run,
		Known:   config.Known{Policies: placement.Policies(), Allocators: bandwidth.Allocators()},
		Ledger: func(ctx context.Context, placement string) (fleet.Ledger, error) {
			return openstack.Connect(ctx, placement)
		},
		Placement: func(ctx context.Context, placement string) (proxy.Placement, error) {
			l, err := openstack.Connect(ctx, placement)
			if err != nil {
				return nil, err
			}
			return l.Unhurried(), nil
		},
	})
}
