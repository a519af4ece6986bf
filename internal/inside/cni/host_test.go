package cni

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"sluice/internal/channel"
)

// fakeHost is sluice-guest with a daemon behind it.
type fakeHost struct {
	listener net.Listener
	path     string

	mu     sync.Mutex
	held   map[channel.VF]channel.Attach
	log    []string
	refuse func(method channel.Method, body string) error
	block  map[channel.Method]*stop // where to wait before the answer
}

func serve(t *testing.T, path string) *fakeHost {
	t.Helper()
	h := &fakeHost{path: path, held: map[channel.VF]channel.Attach{}, block: map[channel.Method]*stop{}}
	h.start(t)
	t.Cleanup(h.stop)
	return h
}

func (h *fakeHost) start(t *testing.T) {
	t.Helper()
	l, err := net.Listen("unix", h.path)
	if err != nil {
		t.Fatal(err)
	}
	h.listener = l
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = channel.Serve(t.Context(), conn, h, channel.Limits{Requests: 1000}) }()
		}
	}()
}

// stop simulates a guest without sluice-guest.
func (h *fakeHost) stop() { h.listener.Close() }

// Handle refuses or carries out a request, and then waits where the test requires.
func (h *fakeHost) Handle(ctx context.Context, method channel.Method, body json.RawMessage) (any, error) {
	h.mu.Lock()
	refuse, wait := h.refuse, h.block[method]
	h.mu.Unlock()
	if refuse != nil {
		if err := refuse(method, string(body)); err != nil {
			return nil, err
		}
	}
	answer, err := channel.Dispatch(h).Handle(ctx, method, body)
	if wait != nil {
		wait.at()
	}
	return answer, err
}

func (h *fakeHost) Hello(context.Context, channel.Hello) (channel.Welcome, error) {
	return channel.Welcome{}, nil
}
func (h *fakeHost) Counters(context.Context, channel.Counters) {}

func (h *fakeHost) Attach(_ context.Context, a channel.Attach) (channel.Attached, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now, taken := h.held[a.VF]; taken && now.Owner != a.Owner {
		return channel.Attached{}, &channel.Error{Code: channel.CodeBusy, Text: now.Owner + " has it"}
	}
	h.held[a.VF] = a
	h.log = append(h.log, fmt.Sprintf("attach %d", a.VF.Index))
	mac := a.MAC
	if mac == "" {
		mac = []string{mac0, mac1}[a.VF.Index]
	}
	return channel.Attached{MAC: mac, VLAN: a.VLAN}, nil
}

func (h *fakeHost) Detach(_ context.Context, d channel.Detach) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[d.VF].Owner == d.Owner {
		delete(h.held, d.VF)
	}
	h.log = append(h.log, fmt.Sprintf("detach %d", d.VF.Index))
	return nil
}

func (h *fakeHost) List(context.Context) (all []channel.Held, _ error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for vf, a := range h.held {
		all = append(all, channel.Held{VF: vf, Owner: a.Owner})
	}
	return all, nil
}

// stop is a point at which a request waits.
type stop struct {
	skip          int // how many requests do not wait
	reached, goOn chan struct{}
}

func newStop() *stop {
	return &stop{reached: make(chan struct{}, 100), goOn: make(chan struct{})}
}

func (s *stop) at() {
	if s.skip--; s.skip >= 0 {
		return
	}
	s.reached <- struct{}{}
	<-s.goOn
}

// attached returns the owners of attached VFs.
func (h *fakeHost) attached() (owners []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.held {
		owners = append(owners, a.Owner)
	}
	slices.Sort(owners)
	return owners
}

// request returns the last request for a VF.
func (h *fakeHost) request(vf int) channel.Attach {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held[channel.VF{PF: pfMAC, Index: vf}]
}

func (h *fakeHost) did() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.log)
}

func (h *fakeHost) set(change func(*fakeHost)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}
