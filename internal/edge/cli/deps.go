package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"sluice/internal/config"
	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/proxy"
	"sluice/internal/model"
)

// Deps are the dependencies that main passes in. A command whose function is nil fails with an error that says so.
type Deps struct {
	// Version is what `sluice version` prints.
	Version string
	// Demo runs the daemon over a simulated host until ctx ends or o.For has passed.
	Demo func(ctx context.Context, o DemoOptions) error
	// Known are the policies and allocators, for `config check`.
	Known config.Known
	// Ledger connects to OpenStack Placement: at that address or, if it is "", where the environment says.
	Ledger func(ctx context.Context, placement string) (fleet.Ledger, error)
	// Placement is the same for `fleet proxy`.
	Placement func(ctx context.Context, placement string) (proxy.Placement, error)
}

// DemoOptions are the options of `sluice demo`. Durations are in virtual time.
type DemoOptions struct {
	VMs      int
	VFs      int
	Policy   string
	Interval time.Duration
	Speed    float64       // virtual seconds per second
	For      time.Duration // 0: until interrupted
	Seed     uint64
	Mode     model.Mode // "": enforce
	Uplink   string     // of the PFs, as sim.Uplink; "": bridge
	Troubles bool       // simulate failures and misconfigurations on the host
	Socket   string     // also serve the API on this unix socket; "": no
	Listen   string     // also serve the page and the API, read-only, at this TCP address; "": no
	Version  string
	// Ready, unless nil, is called with the listening addresses, that of Socket first, as soon as they accept requests.
	Ready func([]net.Addr)
	// Show draws a View; Demo calls it after every tick. It may block while drawing, and returns at once when the context
	// of Demo has ended.
	Show func(*model.View)
}

// Troubled reports whether things go wrong on the host, which has to be large enough for all of them.
func (o *DemoOptions) Troubled() bool { return o.Troubles && o.VMs >= 24 && o.VFs >= 12 }

// Streams are the standard input and outputs of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

var errNotWired = errors.New("this build of sluice does not include that command")
