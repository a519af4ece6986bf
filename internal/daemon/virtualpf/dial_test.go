package virtualpf

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/channel"
	"sluice/internal/model"
)

// Each VM is served over its own socket. One that sends garbage, reads no answers or stays silent delays no other; one whose connection
// breaks is reconnected; and each sees only its own VFs.
func TestChannels(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	r.host.sockets = map[model.VMID]string{}
	guests := map[model.VMID]net.Listener{}
	pfs := map[model.VMID]model.VirtualPF{}
	for _, vm := range []model.VMID{"a", "b", "c"} {
		path := filepath.Join(dir, string(vm))
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		r.host.sockets[vm], guests[vm] = path, l
		pfs[vm], _ = r.run(vm, 1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Channels(ctx) }()
	defer func() { cancel(); <-done }()

	silent, err := guests["b"].Accept() // never sends or reads anything
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	loud, err := guests["c"].Accept()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			if _, err := loud.Write([]byte(strings.Repeat("garbage{\n", 1000))); err != nil {
				return
			}
		}
	}()
	defer loud.Close()
	for try := range 2 { // the second time after the connection broke
		conn, err := guests["a"].Accept()
		if err != nil {
			t.Fatal(err)
		}
		c := channel.NewClient(conn)
		within, cancel := context.WithTimeout(ctx, time.Minute)
		var have channel.Attached
		if err := c.Call(within, channel.MethodAttach, channel.Attach{VF: at(pfs["a"], 0), Owner: "pod"}, &have); err != nil ||
			have.MAC != pfs["a"].VFs[0].MAC.String() {
			t.Errorf("try %d: %+v, %v", try, have, err)
		}
		if err := c.Call(within, channel.MethodAttach, channel.Attach{VF: at(pfs["b"], 0), Owner: "pod"}, nil); code(err) != channel.CodeUnknown {
			t.Errorf("the VF of another VM: %v", err)
		}
		cancel()
		_ = c.Close()
	}
}

// A channel on which nothing comes is opened again and again, since QEMU may have blocked it. That alone is no failure.
func TestSilentChannelIsOpenedAgain(t *testing.T) {
	r := newRig(t)
	r.Limits.Silent = 50 * time.Millisecond
	path := filepath.Join(t.TempDir(), "s")
	guest, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	r.host.sockets = map[model.VMID]string{"a": path}
	r.run("a", 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Channels(ctx) }()
	defer func() { cancel(); <-done }()
	_ = guest.(*net.UnixListener).SetDeadline(time.Now().Add(time.Minute))
	for range 3 {
		conn, err := guest.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	r.contacts.mu.Lock()
	defer r.contacts.mu.Unlock()
	if err := r.contacts.lines["a"].err; err != nil {
		t.Errorf("silence counts as %v", err)
	}
}

// A guest that never says hello on its channel, or whose channel cannot be opened, is reported as a problem with a remedy.
func TestSilentGuest(t *testing.T) {
	r := newRig(t)
	var later atomic.Int64
	start := time.Now()
	r.Now = func() time.Time { return start.Add(time.Duration(later.Load())) }
	r.host.sockets = map[model.VMID]string{"a": filepath.Join(t.TempDir(), "none")}
	_, g := r.run("a", 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Channels(ctx) }()
	defer func() { cancel(); <-done }()
	said := func() (out string) {
		list, _ := r.List(ctx)
		for _, p := range slices.Concat(r.Problems(), list[0].Problems) {
			out += p.Subject + ": " + p.Text + "; " + p.Remedy + "\n"
		}
		return out
	}
	tried := func() bool {
		r.contacts.mu.Lock()
		defer r.contacts.mu.Unlock()
		return r.contacts.lines["a"] != nil && r.contacts.lines["a"].err != nil
	}
	r.until("the channel was tried", tried)
	if have := said(); have != "" {
		t.Errorf("while it may be booting: %s", have)
	}
	later.Add(int64(silentFor))
	if have := said(); strings.Count(have, "vm-a: its sluice-guest has been silent for 3m0s") != 2 ||
		!strings.Contains(have, "no such file") || !strings.Contains(have, "systemctl enable --now sluice-guest") {
		t.Errorf("have %s", have)
	}
	if _, err := g.Hello(ctx, channel.Hello{Boot: "boot-1"}); err != nil {
		t.Fatal(err)
	}
	if have := said(); have != "" {
		t.Errorf("after a hello: %s", have)
	}
	later.Add(int64(silentFor))
	if have := said(); have == "" {
		t.Error("it has been silent again, and nothing is said")
	}
	r.host.stop("a")
	r.Runner.Wake()
	r.until("it is over with the VM", func() bool { return said() == "" })
}
