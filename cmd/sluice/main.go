// Command sluice gives the virtual machines of a KVM host its SR-IOV virtual functions
// where they pay. This file only wires; see internal/cli for the commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"sluice/internal/cli"
	"sluice/internal/config"
	"sluice/internal/daemon"
	"sluice/internal/observe"
	"sluice/internal/placement"
)

// version is set by the linker: -ldflags "-X main.version=1.2.3".
var version string

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, cli.Deps{
		Version: version,
		Run:     daemon.Run,
		Demo:    daemon.Demo,
		Offline: daemon.Offline,
		Examine: observe.Doctor,
		Known:   config.Known{Policies: placement.Params(), Rounds: placement.Rounds},
	})
}
