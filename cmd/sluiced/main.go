// Command sluiced is Sluice's daemon. The program sluice is its client, and starts it with `sluice run`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"sluice/internal/base/version"
	"sluice/internal/daemon"
)

// linked is set by the linker: -ldflags "-X main.linked=1.2.3".
var linked string

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills the process
	return daemon.Main(ctx, os.Args[1:], os.Stdout, os.Stderr, version.Or(linked))
}
