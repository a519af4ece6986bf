package vpf

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/channel"
	"sluice/internal/model"
)

// Each VM is served over its own socket: one that sends garbage, takes no answers or says nothing delays no other, one whose
// connection breaks is connected again, and each sees what is its own.
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

	silent, err := guests["b"].Accept() // and never says or takes anything
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
		if err := c.Call(within, channel.MethodAttach, channel.Attach{VF: at(pfs["a"], 0), Owner: "pod"}, &have); err != nil || have.MAC != pfs["a"].VFs[0].MAC.String() {
			t.Errorf("try %d: %+v, %v", try, have, err)
		}
		if err := c.Call(within, channel.MethodAttach, channel.Attach{VF: at(pfs["b"], 0), Owner: "pod"}, nil); code(err) != channel.CodeUnknown {
			t.Errorf("the VF of another VM: %v", err)
		}
		cancel()
		_ = c.Close()
	}
}
