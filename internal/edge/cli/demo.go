package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/gdamore/tcell/v2"
	"golang.org/x/sync/errgroup"

	"sluice/internal/edge/client"
	"sluice/internal/edge/dashboard"
	"sluice/internal/edge/top"
	"sluice/internal/model"
)

// demo is a run of `sluice demo` and its presentation.
type demo struct {
	*app
	o      DemoOptions
	open   bool // open the page in a browser
	screen bool // live view in the terminal
	lines  bool
}

// run runs the demo until it is over or the user quits; neither is an error.
func (d *demo) run(ctx context.Context) error {
	if d.deps.Demo == nil {
		return errNotWired
	}
	if d.o.Socket == "" && (d.open || d.screen) {
		dir, err := os.MkdirTemp("", "sluice-demo-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		d.o.Socket = filepath.Join(dir, "sluice.sock")
	}
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	views := make(chan *model.View)
	d.o.Show = func(v *model.View) {
		select {
		case views <- v:
		case <-ctx.Done():
		}
	}
	ready := make(chan []net.Addr, 1)
	d.o.Ready = func(at []net.Addr) { ready <- at }
	g.Go(func() error {
		defer close(views)
		defer cancel()
		return d.deps.Demo(ctx, d.o)
	})
	g.Go(func() error { d.print(views); return nil })
	g.Go(func() error {
		select {
		case at := <-ready:
			defer cancel()
			return d.present(ctx, at)
		case <-ctx.Done():
			return nil
		}
	})
	err := g.Wait()
	if errors.Is(err, context.Canceled) || outer.Err() != nil {
		return nil
	}
	return err
}

// print prints events as lines, or only a heading if they are shown elsewhere.
func (d *demo) print(views <-chan *model.View) {
	if d.lines || !d.screen {
		fmt.Fprintln(d.std.Out, demoHead(d.o))
	}
	var events liveLines
	for v := range views {
		if d.lines {
			events.print(d.std.Out, v)
		}
	}
	if d.lines {
		fmt.Fprintln(d.std.Out, demoNext)
	}
}

// present shows the demo to the user until the user quits or ctx ends.
func (d *demo) present(ctx context.Context, at []net.Addr) error {
	if d.o.Listen != "" {
		fmt.Fprintf(d.std.Out, "The page is at http://%s/\n", at[len(at)-1])
	}
	switch {
	case d.open:
		s, err := dashboard.New(d.o.Socket, 0)
		if err != nil {
			return err
		}
		return d.serve(ctx, s, true, false)
	case d.screen:
		return top.Run(ctx, clientSource{client.New(d.o.Socket)}, tcell.NewScreen, fmt.Sprintf("Simulated host, %gx", d.o.Speed))
	}
	<-ctx.Done()
	return nil
}
