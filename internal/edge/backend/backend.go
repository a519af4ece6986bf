package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// Backend answers the API: questions from the last View, commands inside the loop.
type Backend struct {
	core      *loop.Core
	call      func(ctx context.Context, f func(now time.Time)) error // runs f where the Core may be used
	overrides *Overrides
	rules     func() model.Rules     // what the config says
	stale     atomic.Pointer[string] // why the last reload failed; nil: it did not
	started   time.Time

	mu    sync.Mutex
	view  *model.View
	newer chan struct{} // closed when view is replaced

	// Reload reads the configuration again and returns what a person must know about what
	// follows; nil: there is none.
	Reload func() ([]string, error)
	// Config names the configuration in Views.
	Config string
	// Seen, if set, gets each View before anybody who asks does, in the loop.
	Seen func(*model.View)
	// Now is the clock by which overrides end; that of the loop.
	Now func() time.Time
}

// New answers from a loop: call runs a function where core may be used, rules are those of
// the config. Until Publish is called, the View shows nothing.
func New(core *loop.Core, call func(context.Context, func(time.Time)) error, w *Overrides, rules func() model.Rules) *Backend {
	b := &Backend{core: core, call: call, overrides: w, rules: rules, Now: time.Now, newer: make(chan struct{})}
	b.started = time.Now()
	first := core.View()
	first.Snapshot, first.Target = &model.Snapshot{}, &model.Target{}
	// A new daemon's revisions must not be those of the last: who waits for another one
	// than it has would wait too long. In milliseconds they stay exact as JSON numbers.
	first.Revision = uint64(b.started.UnixMilli()) //nolint:gosec // long after 1970
	b.view = first
	return b
}

// Publish takes a new View from the loop, in the loop.
func (b *Backend) Publish(v *model.View) {
	if b.overrides.Expire(b.Now()) {
		// The next tick decides by these rules. They are the config's, which were good.
		if err := b.core.SetRules(b.overrides.Over(b.rules())); err != nil {
			v.Errors = append(v.Errors, "an override has ended, but: "+err.Error())
		}
	}
	if why := b.stale.Load(); why != nil {
		v.Errors = append(v.Errors, *why)
	}
	last, _ := b.View()
	if v.Snapshot == nil || v.Target == nil { // nothing seen yet: keep the empty picture, but say why
		v.Snapshot, v.Target = last.Snapshot, last.Target
	}
	v.Config, v.Overrides, v.Started, v.Revision = b.Config, b.overrides.List(), b.started, last.Revision+1
	if b.Seen != nil {
		b.Seen(v)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.view = v
	close(b.newer)
	b.newer = make(chan struct{})
}

// View implements server.Backend.
func (b *Backend) View() (*model.View, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.view, b.newer
}

// TryReload reloads, and has the next Views show it if that failed.
func (b *Backend) TryReload() ([]string, error) {
	notes, err := b.Reload()
	if err != nil {
		err = fmt.Errorf("the configuration stays as it was: %w", err)
		text := err.Error()
		b.stale.Store(&text)
		return nil, err
	}
	b.stale.Store(nil)
	return notes, nil
}

// Memory implements server.Backend. It is copied in the loop and written out here.
func (b *Backend) Memory(ctx context.Context) (answer.Memory, error) {
	var m *loop.Memory
	if err := b.call(ctx, func(time.Time) { m = b.core.Memory() }); err != nil {
		return answer.Memory{}, err
	}
	state, err := json.Marshal(m)
	return answer.Memory{Time: m.Time, Busy: m.Busy, State: state}, err
}
