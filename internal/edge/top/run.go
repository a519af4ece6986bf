package top

import (
	"context"
	"time"

	"github.com/gdamore/tcell/v2"

	"sluice/api/v1"
)

// Source provides what is shown. Its calls may block, and return when their context ends.
type Source interface {
	// Look waits for a revision other than after and returns the state then. After half a minute without one it may return
	// the same state.
	Look(ctx context.Context, after uint64) (*Data, error)
	// Explain returns the details of a VM, given by UUID, as lines of text.
	Explain(ctx context.Context, vm string) ([]string, error)
}

// Data is the state of the host at one time.
type Data struct {
	Status    api.Status
	VMs       []api.VM
	Bandwidth api.Bandwidth
	Subjects  []string // the subjects of the problems, the most severe first
	Problems  []string // lines of text: problems and remedies
}

const (
	leastGap = 500 * time.Millisecond // minimum time between two calls of Look
	retry    = time.Second            // after a failed Look
)

// Run shows what src provides on the screen until the user quits or ctx ends. It calls Look once before it touches the
// screen, and returns the error of that call.
func Run(ctx context.Context, src Source, open func() (tcell.Screen, error), title string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, err := src.Look(ctx, 0)
	if err != nil {
		return err
	}
	screen, err := open()
	if err != nil {
		return err
	}
	if err := screen.Init(); err != nil {
		return err
	}
	defer screen.Fini()
	r := &runner{Source: src, state: newState(title), screen: screen, looks: make(chan look), explanations: make(chan explanation)}
	r.state.look(first)
	go r.watch(ctx, first.Status.Revision)
	events := make(chan tcell.Event)
	go screen.ChannelEvents(events, ctx.Done())
	r.loop(ctx, events)
	return nil
}

// look is a result of Source.Look.
type look struct {
	data *Data
	err  error
}

// explanation is a result of Source.Explain.
type explanation struct {
	vm    string
	lines []string
	err   error
}

type runner struct {
	Source
	state        *state
	screen       tcell.Screen
	looks        chan look
	explanations chan explanation
	asking       string // the VM whose explanation is pending
}

// loop redraws after every event, until the user quits.
func (r *runner) loop(ctx context.Context, events <-chan tcell.Event) {
	var shown *canvas
	for !r.state.quit {
		c := newCanvas(r.screen.Size())
		r.state.draw(c)
		c.show(r.screen, shown)
		shown = c
		select {
		case <-ctx.Done():
			return
		case ev, ok := <-events:
			if !ok {
				return // the terminal is gone
			}
			r.handle(ev)
		case l := <-r.looks:
			if r.state.err = l.err; l.err == nil {
				r.state.look(l.data)
			}
			r.ask(ctx)
			continue
		case e := <-r.explanations:
			r.asking = ""
			r.state.explained(e.vm, e.lines, e.err)
		}
		if r.state.page == pageVM && r.state.lines == nil {
			r.ask(ctx)
		}
	}
}

func (r *runner) handle(ev tcell.Event) {
	switch ev := ev.(type) {
	case *tcell.EventKey:
		r.state.key(ev)
	case *tcell.EventResize:
		r.screen.Sync()
	}
}

// ask requests a new explanation of the VM in detail, one at a time.
func (r *runner) ask(ctx context.Context) {
	vm := r.state.vm
	if r.state.page != pageVM || r.asking != "" {
		return
	}
	r.asking = vm
	go func() {
		lines, err := r.Explain(ctx, vm)
		select {
		case r.explanations <- explanation{vm, lines, err}:
		case <-ctx.Done():
		}
	}()
}

// watch calls Look whenever there is a new revision, but no faster than a user can follow.
func (r *runner) watch(ctx context.Context, revision uint64) {
	for {
		pause := leastGap
		d, err := r.Look(ctx, revision)
		if err != nil {
			pause, revision = retry, 0
		} else {
			revision = d.Status.Revision
		}
		select {
		case r.looks <- look{d, err}:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}
