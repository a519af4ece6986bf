package webtest

import (
	"context"
	"encoding/json"
	"sync"

	"sluice/internal/model"
	"sluice/internal/web"
)

// Backend serves one View and remembers the commands it was given.
type Backend struct {
	mu   sync.Mutex
	view *model.View
	got  []web.Command
	fail error
}

// NewBackend serves that View, which may be nil: a daemon that has not looked yet.
func NewBackend(v *model.View) *Backend { return &Backend{view: v} }

// View implements web.Backend.
func (b *Backend) View() *model.View {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.view
}

// Show replaces the View.
func (b *Backend) Show(v *model.View) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.view = v
}

// Fail makes all commands fail with err, nil for success.
func (b *Backend) Fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = err
}

// Got lists the commands so far.
func (b *Backend) Got() []web.Command {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]web.Command(nil), b.got...)
}

// Memory implements web.Backend.
func (b *Backend) Memory(context.Context) (web.Memory, error) {
	return web.Memory{Time: b.View().Snapshot.Time, State: json.RawMessage(`{}`)}, nil
}

// Do implements web.Backend.
func (b *Backend) Do(ctx context.Context, c web.Command) (web.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, c)
	if err := ctx.Err(); err != nil {
		return web.Result{}, err
	}
	if b.fail != nil {
		return web.Result{}, b.fail
	}
	return web.Result{Text: "accepted: " + string(c.Verb) + " " + c.VMName, Details: []string{"the next decision takes it up"}}, nil
}
