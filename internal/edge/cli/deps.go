package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"sluice/internal/config"
	"sluice/internal/model"
)

// Deps are the parts of Sluice that the wiring passes in. A nil function makes its
// command fail with an error that says so.
type Deps struct {
	// Version is what `sluice version` prints.
	Version string
	// Demo runs the daemon over a simulated host until ctx ends or o.For is over.
	Demo func(ctx context.Context, o DemoOptions) error
	// Known are the policies and their parameters, for `config check`.
	Known config.Known
}

// DemoOptions are those of `sluice demo`. Durations are in virtual time.
type DemoOptions struct {
	VMs      int
	VFs      int
	Policy   string
	Interval time.Duration
	Speed    float64       // virtual seconds a second
	For      time.Duration // 0: until interrupted
	Seed     uint64
	Troubles bool   // let things go wrong on the host
	Socket   string // also serve the API there; "": do not
	Listen   string // and, for reading only, with the page, at this TCP address; "": do not
	Version  string
	// Ready, unless nil, is told what is listened on, that of Socket first, as soon as that answers.
	Ready func([]net.Addr)
	// Show draws a View; call it after every tick. It may block for as long as drawing
	// takes, and returns at once when the context of Demo has ended.
	Show func(*model.View)
}

// Streams are the standard input and outputs of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

var errNotWired = errors.New("this build of sluice cannot do that: it was linked without that part")
