package virtualpf

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"sluice/internal/base/sleep"
	"sluice/internal/channel"
	"sluice/internal/model"
)

// dialWithin bounds connecting to a VM's channel.
const dialWithin = 5 * time.Second

// line serves the channel of one run of a VM.
type line struct {
	run    string
	cancel context.CancelFunc
}

// Channels serves the channels of all running VMs that have one, until ctx ends. Each channel has its own goroutine, so a guest that
// floods the host or reads no answers delays no other guest.
func (m *Manager) Channels(ctx context.Context) error {
	lines := map[model.VMID]line{}
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		v, next := m.Runner.View()
		if v.Err == nil {
			m.dial(ctx, &wg, lines, channels(v))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
	}
}

// channels returns the current run of each VM that has a channel.
func channels(v *View) map[model.VMID]string {
	out := map[model.VMID]string{}
	for i := range v.Virtual {
		if s := &v.Virtual[i]; s.Running && s.Channel {
			out[s.VM] = s.Run
		}
	}
	return out
}

// dial starts and stops serving channels.
func (m *Manager) dial(ctx context.Context, wg *sync.WaitGroup, lines map[model.VMID]line, want map[model.VMID]string) {
	for vm, l := range lines {
		if run, ok := want[vm]; !ok || run != l.run {
			l.cancel()
			delete(lines, vm)
		}
	}
	for vm, run := range want {
		if _, ok := lines[vm]; ok {
			continue
		}
		on, cancel := context.WithCancel(ctx)
		lines[vm] = line{run, cancel}
		own := m.contacts.open(vm, m.Now())
		wg.Go(func() {
			defer cancel()
			defer m.contacts.end(vm, own)
			m.serveRun(on, vm)
		})
	}
}

// serveRun serves a VM's channel and reconnects when the connection ends.
func (m *Manager) serveRun(ctx context.Context, vm model.VMID) {
	said := ""
	for ctx.Err() == nil {
		since := m.Now()
		err := m.serve(ctx, vm)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, channel.ErrSilent) {
			m.contacts.failed(vm, nil)
			continue // which unblocks the port if need be
		}
		m.contacts.failed(vm, err)
		if err != nil && err.Error() != said {
			said = err.Error()
			m.Runner.Log.Warn("the channel of a VM was closed; opening it again", "vm", string(vm), "error", err)
		}
		_ = sleep.For(ctx, m.allowance(vm).pause(err, m.Now().Sub(since)))
	}
}

// silentFor is how long a guest with a channel may stay silent: it has to boot first. sluice-guest repeats its hello every 11 s.
const silentFor = 3 * time.Minute

// contacts records when each guest was last heard from.
type contacts struct {
	mu    sync.Mutex
	lines map[model.VMID]*contact
}

// contact is the record of one line.
type contact struct {
	last time.Time // time of the last hello; before the first, of the start of the line
	err  error     // why the last attempt to open the channel failed
}

func (h *contacts) open(vm model.VMID, now time.Time) *contact {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lines == nil {
		h.lines = map[model.VMID]*contact{}
	}
	h.lines[vm] = &contact{last: now}
	return h.lines[vm]
}

// end forgets a line, unless the VM has a new one already.
func (h *contacts) end(vm model.VMID, own *contact) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lines[vm] == own {
		delete(h.lines, vm)
	}
}

func (h *contacts) hello(vm model.VMID, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.lines[vm]; l != nil {
		l.last, l.err = now, nil
	}
}

func (h *contacts) failed(vm model.VMID, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.lines[vm]; l != nil {
		l.err = err
	}
}

// problems reports a guest that has a channel and has been silent for too long.
func (h *contacts) problems(vm model.VMID, name string, now time.Time) []model.Problem {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lines[vm]
	if l == nil || now.Sub(l.last) < silentFor {
		return nil
	}
	p := model.Problem{
		Subject: name, Text: fmt.Sprintf("its sluice-guest has been silent for %s, so nobody in the guest can request a virtual VF",
			now.Sub(l.last).Round(time.Second)),
		Remedy: "in the guest: systemctl enable --now sluice-guest, then sluice-guest doctor; define the virtual PF with --no-channel if the " +
			"guest need not request VFs",
	}
	if l.err != nil {
		p.Text += ": " + l.err.Error()
	}
	return []model.Problem{p}
}

// serve connects once. The path of the socket comes from libvirt, so it identifies the VM.
func (m *Manager) serve(ctx context.Context, vm model.VMID) error {
	within, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	path, err := m.Runner.Domains.ChannelSocket(within, vm)
	if err != nil {
		return err
	}
	if path == "" {
		return errors.New("the VM runs without the channel " + channel.Port)
	}
	conn, err := new(net.Dialer).DialContext(within, "unix", path)
	if err != nil {
		return err
	}
	m.Runner.Log.Debug("the channel of a VM is open", "vm", string(vm))
	return channel.Serve(ctx, conn, channel.Dispatch(m.Guest(vm)), m.Limits)
}
