package edgetest

import (
	"context"
	"encoding/json"
	"sync"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/edge/server"
	"sluice/internal/model"
)

// Backend serves one View and records the commands it receives.
type Backend struct {
	mu    sync.Mutex
	view  *model.View
	newer chan struct{}
	got   []server.Command
	fail  error
	asked int // number of Memory calls

	claims []model.Claim
	ports  []model.Port

	// After returns the View that follows a command; nil: the View stays the same.
	After func(c server.Command, v *model.View) *model.View
}

// NewBackend serves that View; nil stands for a daemon that has not observed the host yet.
func NewBackend(v *model.View) *Backend { return &Backend{view: v, newer: make(chan struct{})} }

// View implements server.Backend.
func (b *Backend) View() (*model.View, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.view, b.newer
}

// Show replaces the View.
func (b *Backend) Show(v *model.View) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.show(v)
}

func (b *Backend) show(v *model.View) {
	b.view = v
	close(b.newer)
	b.newer = make(chan struct{})
}

// Fail makes all commands fail with err, nil for success.
func (b *Backend) Fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = err
}

// Got returns the commands so far.
func (b *Backend) Got() []server.Command {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]server.Command(nil), b.got...)
}

// SetClaims implements server.Backend.
func (b *Backend) SetClaims(_ context.Context, claims []model.Claim) (api.Result, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.claims = claims
	return api.Result{}, true, b.fail
}

// Claims returns the claims that were set last.
func (b *Backend) Claims() []model.Claim {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.claims
}

// SetPorts implements server.Backend.
func (b *Backend) SetPorts(_ context.Context, ports []model.Port) (api.HostPorts, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ports = ports
	rules := b.view.Rules
	rules.Ports = ports
	return answer.Ports(b.view.Snapshot, &rules), true, b.fail
}

// Ports returns the ports that were set last.
func (b *Backend) Ports() []model.Port {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ports
}

// Memories returns the number of calls of Memory.
func (b *Backend) Memories() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked
}

// Memory implements server.Backend.
func (b *Backend) Memory(context.Context) (answer.Memory, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	return answer.Memory{Time: b.view.Snapshot.Time, State: json.RawMessage(`{}`)}, nil
}

// Do implements server.Backend.
func (b *Backend) Do(ctx context.Context, c server.Command) (api.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, c)
	if b.After != nil && b.fail == nil {
		b.show(b.After(c, b.view))
	}
	if err := ctx.Err(); err != nil {
		return api.Result{}, err
	}
	if b.fail != nil {
		return api.Result{}, b.fail
	}
	if r := answer.NewIndex(b.view).Reason(c.VM); r.Code == model.CodeVeto && c.Verb == api.VerbPin {
		return api.Result{Text: c.VMName + " is pinned, but it cannot get a VF: " + r.Because(), Obstacle: r.Because()}, nil
	}
	return api.Result{Text: "accepted: " + string(c.Verb) + " " + c.VMName, Details: []string{"the next decision takes it up"}}, nil
}
