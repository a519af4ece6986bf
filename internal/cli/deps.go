package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"sluice/internal/config"
	"sluice/internal/model"
	"sluice/internal/web"
)

// Deps are the parts of Sluice that the wiring passes in. A nil function makes its
// command fail with an error that says so.
type Deps struct {
	// Version is what `sluice version` prints; "" takes it from the build.
	Version string
	// Run is the daemon. It returns nil when ctx ended and all was left in order.
	Run func(ctx context.Context, o RunOptions) error
	// Demo runs the daemon over a simulated host until ctx ends or o.For is over.
	Demo func(ctx context.Context, o DemoOptions) error
	// Offline looks at this host once, without a daemon, and decides and plans on it,
	// changing nothing.
	Offline func(ctx context.Context, configPath string) (*model.View, error)
	// Examine finds the problems of a Snapshot; nil: those it carries.
	Examine web.Examine
	// Known are the policies and their parameters, for `config check`.
	Known config.Known
}

// RunOptions are those of `sluice run`.
type RunOptions struct {
	Config  string     // path of sluice.yaml
	Mode    model.Mode // overrides the config's, where it is set
	Socket  string     // overrides api.socket, where it is set
	Version string     // for logs, metrics and status
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
	Socket   string // also serve the API there; "": do not
	Version  string
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
