package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/control/loop"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// Backend answers the API: queries from the last View, commands inside the loop.
type Backend struct {
	core      *loop.Core
	call      func(ctx context.Context, f func(now time.Time)) error // runs f in the loop, where core may be used
	overrides *Overrides
	rules     func() model.Rules     // the rules of the configuration
	stale     atomic.Pointer[string] // why the last reload failed; nil: it succeeded
	started   time.Time

	samples []model.Sample // the last few; used in the loop only

	mu    sync.Mutex
	view  *model.View
	newer chan struct{} // closed when view is replaced

	// Reload reads the configuration again and returns notes for the user about the consequences; nil: there is no
	// configuration.
	Reload func() ([]string, error)
	// Config is the name of the configuration in Views.
	Config string
	// Seen, if set, is called in the loop with each View before the View is published.
	Seen func(*model.View)
	// Now is the loop's clock, by which overrides expire.
	Now func() time.Time
}

// New returns a Backend for a loop: call runs a function in the loop, where core may be used; rules returns the rules of
// the configuration. Until Publish is called, the View is empty.
func New(core *loop.Core, call func(context.Context, func(time.Time)) error, w *Overrides, rules func() model.Rules) *Backend {
	b := &Backend{core: core, call: call, overrides: w, rules: rules, Now: time.Now, newer: make(chan struct{})}
	b.started = time.Now()
	first := core.View()
	first.Snapshot, first.Target = &model.Snapshot{}, &model.Target{}
	// A restarted daemon must not reuse revisions: a client waiting for a revision other than its own would wait too long.
	// Milliseconds are exact as JSON numbers.
	first.Revision = uint64(b.started.UnixMilli()) //nolint:gosec // long after 1970
	b.view = first
	return b
}

// Publish publishes a new View. It must be called in the loop.
func (b *Backend) Publish(v *model.View) {
	if b.overrides.Expire(b.Now()) {
		// The next tick uses these rules. They are those of the configuration, which were accepted before.
		if err := b.core.SetRules(b.overrides.Over(b.rules())); err != nil {
			v.Errors = append(v.Errors, "an override has ended, but: "+err.Error())
		}
	}
	if why := b.stale.Load(); why != nil {
		v.Errors = append(v.Errors, *why)
	}
	last, _ := b.View()
	if v.Snapshot == nil || v.Target == nil { // nothing observed yet: keep the empty state, but report the errors
		v.Snapshot, v.Target = last.Snapshot, last.Target
	}
	v.Samples = b.sampled(v)
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

// keepSamples is how many Samples a View has. Observations are due at a fixed rate, but one that took long comes right before the next,
// and on a busy host a recorder asks late.
const keepSamples = 10

// sampled returns the last Samples with that of a new View. Views share the list, so it is never changed in place.
func (b *Backend) sampled(v *model.View) []model.Sample {
	if v.Target.Time.IsZero() { // nothing observed yet
		return nil
	}
	s := model.Sample{Number: 1, Snapshot: v.Snapshot, Rules: v.Rules, Decided: v.Target.Time}
	if n := len(b.samples); n > 0 {
		if b.samples[n-1].Decided.Equal(s.Decided) {
			return b.samples // published again, since a move has gone on
		}
		s.Number = b.samples[n-1].Number + 1
	}
	b.samples = append(slices.Clone(b.samples[max(0, len(b.samples)+1-keepSamples):]), s)
	return b.samples
}

// View implements server.Backend.
func (b *Backend) View() (*model.View, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.view, b.newer
}

// TryReload reloads; a failure is shown in subsequent Views.
func (b *Backend) TryReload() ([]string, error) {
	notes, err := b.Reload()
	if err != nil {
		err = fmt.Errorf("the configuration is unchanged: %w", err)
		text := err.Error()
		b.stale.Store(&text)
		return nil, err
	}
	b.stale.Store(nil)
	return notes, nil
}

// Memory implements server.Backend. The state is copied in the loop and encoded outside it.
func (b *Backend) Memory(ctx context.Context) (answer.Memory, error) {
	var m *loop.Memory
	if err := b.call(ctx, func(time.Time) { m = b.core.Memory() }); err != nil {
		return answer.Memory{}, err
	}
	state, err := json.Marshal(m)
	return answer.Memory{Time: m.Time, Busy: m.Busy, State: state}, err
}
