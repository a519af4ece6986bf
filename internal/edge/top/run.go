package top

import (
	"context"
	"time"

	"github.com/gdamore/tcell/v2"

	"sluice/api/v1"
)

// Source answers what is shown. Its calls may take long, and end with their context.
type Source interface {
	// Look waits until there is another revision than that and returns what is so then. After half a
	// minute without one it may return the same.
	Look(ctx context.Context, after uint64) (*Data, error)
	// Explain says all about a VM, by UUID, in lines of text.
	Explain(ctx context.Context, vm string) ([]string, error)
}

// Data is one picture of the host.
type Data struct {
	Status    api.Status
	VMs       []api.VM
	Bandwidth api.Bandwidth
	Subjects  []string // whom the troubles are about, the gravest first
	Troubles  []string // lines of text: what stands in the way, and what to do
}

const (
	leastGap = 500 * time.Millisecond // between two looks
	retry    = time.Second            // after a look that failed
)

// Run shows what src says on the screen until a person quits or ctx ends. It makes the first look before it
// touches the screen: the error is that of this look.
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
	r := &runner{Source: src, state: newState(title), screen: screen, looks: make(chan look), said: make(chan said)}
	r.state.look(first)
	go r.watch(ctx, first.Status.Revision)
	events := make(chan tcell.Event)
	go screen.ChannelEvents(events, ctx.Done())
	r.loop(ctx, events)
	return nil
}

// look is what Source.Look returned, said what Explain did.
type look struct {
	data *Data
	err  error
}

type said struct {
	vm    string
	lines []string
	err   error
}

type runner struct {
	Source
	state  *state
	screen tcell.Screen
	looks  chan look
	said   chan said
	asking string // the VM whose answer is awaited
}

// loop draws after everything that happens, until a person quits.
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
			if r.state.failed(l.err); l.err == nil {
				r.state.look(l.data)
			}
			r.ask(ctx)
			continue
		case s := <-r.said:
			r.asking = ""
			r.state.explained(s.vm, s.lines, s.err)
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

// ask has the VM in detail explained anew, one at a time.
func (r *runner) ask(ctx context.Context) {
	vm := r.state.vm
	if r.state.page != pageVM || r.asking != "" {
		return
	}
	r.asking = vm
	go func() {
		lines, err := r.Explain(ctx, vm)
		select {
		case r.said <- said{vm, lines, err}:
		case <-ctx.Done():
		}
	}()
}

// watch looks whenever there is news, but not more often than a person can follow.
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
