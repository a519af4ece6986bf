// Command sluice-guest is the part of Sluice inside a VM with virtual PFs.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"sluice/internal/base/version"
	"sluice/internal/inside/sluiceguest"
)

// linked is set by the linker: -ldflags "-X main.linked=1.2.3".
var linked string

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills the process
	return sluiceguest.Main(ctx, os.Args[1:], os.Stdout, os.Stderr, version.Or(linked))
}
