package ovs

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/model"
)

// fakeSwitchd answers on the control socket as ovs-vswitchd does: each connection is a turn of its main loop, and "revalidator/wait" is
// answered in a later turn than it was asked in.
type fakeSwitchd struct {
	mu    sync.Mutex
	did   []string        // commands, without those that only ask for a turn
	fixed map[string]bool // MACs of fixed entries
	turns int
	rest  string // what waits for a round are answered: "" as usual, "never", or an error
}

func (f *fakeSwitchd) run(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("OVS_RUNDIR", dir)
	if err := os.WriteFile(filepath.Join(dir, "ovs-vswitchd.pid"), []byte("77\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "ovs-vswitchd.77.ctl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	f.fixed = map[string]bool{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.turns++
			f.mu.Unlock()
			go f.serve(c)
		}
	}()
}

func (f *fakeSwitchd) serve(c net.Conn) {
	defer c.Close()
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for {
		var r request
		if in.Decode(&r) != nil {
			return
		}
		f.mu.Lock()
		if r.Method != "version" {
			f.did = append(f.did, r.Method)
		}
		switch r.Method {
		case "fdb/add":
			f.fixed[r.Params[3]] = true
		case "fdb/del":
			delete(f.fixed, r.Params[2])
		}
		asked, rest := f.turns, f.rest
		f.mu.Unlock()
		a := answer{ID: r.ID}
		for r.Method == "revalidator/wait" && rest != "" {
			if rest != "never" {
				a.Error = &rest
				break
			}
			if in.Decode(&r) != nil { // until the other end has had enough
				return
			}
		}
		for r.Method == "revalidator/wait" && a.Error == nil {
			f.mu.Lock()
			now := f.turns
			f.mu.Unlock()
			if now > asked {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if out.Encode(a) != nil {
			return
		}
	}
}

func (f *fakeSwitchd) state() (did string, fixed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.did, " "), len(f.fixed)
}

var aMAC = model.MAC{2, 0, 0, 0, 0, 1}

// TestGoesByFlows: two whole rounds are waited for, each begun by a change of its own, and no entry is left.
func TestGoesByFlows(t *testing.T) {
	var f fakeSwitchd
	f.run(t)
	if err := goesByFlows(t.Context(), "br-int", "rep0", aMAC); err != nil {
		t.Fatal(err)
	}
	if did, fixed := f.state(); did != "fdb/add revalidator/wait fdb/del revalidator/wait" || fixed > 0 {
		t.Errorf("did %q, and %d entries are left", did, fixed)
	}
}

// TestGoesByFlowsFails: no entry is left if ovs-vswitchd refuses to wait, or if nobody waits any longer.
func TestGoesByFlowsFails(t *testing.T) {
	for rest, want := range map[string]string{"can't wait on multiple udpifs.": "multiple udpifs", "never": ""} {
		f := fakeSwitchd{rest: rest}
		f.run(t)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		err := goesByFlows(ctx, "br-int", "rep0", aMAC)
		cancel()
		did, fixed := f.state()
		if err == nil || !strings.Contains(err.Error(), want) || fixed > 0 || !slices.Contains(strings.Fields(did), "fdb/add") {
			t.Errorf("%s: %v; did %q, and %d entries are left", rest, err, did, fixed)
		}
	}
}

// TestWithoutSwitchd: the error says that ovs-vswitchd does not run, or does not answer.
func TestWithoutSwitchd(t *testing.T) {
	t.Setenv("OVS_RUNDIR", t.TempDir())
	if _, err := appctl(t.Context(), "version"); err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("without a process: %v", err)
	}
	if err := os.WriteFile(pidFile(), []byte("77\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := appctl(t.Context(), "version"); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("without its socket: %v", err)
	}
}
