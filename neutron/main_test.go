// Package neutron tests sluice-neutron, the Python package in this directory: by its own tests, and on a real Neutron.
package neutron

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/daemon"
	"sluice/internal/host/kernel"
)

// TestMain makes the test binary usable as the daemon, and as the program that watches the limits of taps.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"sluiced": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			os.Exit(daemon.Main(ctx, os.Args[1:], os.Stdout, os.Stderr, "1.2.3"))
		},
		"watch-taps": watchTaps,
	})
}

// watchTaps prints the limits of SLAs in the kernel whenever they change: in each line the time in ns since 1970, then for each tap what
// it may send and receive.
func watchTaps() {
	k, err := kernel.New(kernel.Options{})
	last := "unknown"
	for ; err == nil; time.Sleep(10 * time.Millisecond) {
		all, failed := k.TapPolicies(context.Background())
		if failed != nil {
			fmt.Fprintln(os.Stderr, failed) // it changes just now
			continue
		}
		text := ""
		for i := range all {
			p := &all[i]
			text += fmt.Sprintf(" %s tx %s rx %s", p.Tap, cmp.Or(p.Tx.Contract.String(), "any"), cmp.Or(p.Rx.Contract.String(), "any"))
		}
		if text != last {
			fmt.Printf("%d%s\n", time.Now().UnixNano(), text)
			last = text
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// What the package does by itself, with stand-ins for Neutron and the daemon.
func TestPython(t *testing.T) {
	cmd := exec.Command("python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=.")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
