//go:build lab

package labtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/lab"
)

// onKernel are the packages that talk to the kernel.
var onKernel = []string{
	"sluice/internal/base/rtnl", "sluice/internal/host/kernel",
	"sluice/internal/host/bridge", "sluice/internal/host/counters", "sluice/internal/host/htb", "sluice/internal/host/mirror",
	"sluice/internal/host/netdev", "sluice/internal/host/tap", "sluice/internal/host/vdpa", "sluice/internal/host/vf",
}

const subject = "SLUICE_TEST_PF=pf0 SLUICE_TEST_VF=6 "

func TestOnTheHost(t *testing.T) {
	t.Parallel()
	h := lab.ForTest(t, "vm1")
	for _, pkg := range onKernel {
		put(t, h, pkg)
		run(t, h, "SLUICE_TEST_WHOLE_KERNEL=1 "+name(pkg)+" -test.v -test.skip SimulatedNIC") // for which scripts/netdevsim boots a kernel
	}
	put(t, h, "./hwtest")
	run(t, h, subject+name("./hwtest")+" -test.v -test.skip 'Guest|VDPA'")
	t.Run("bench", func(t *testing.T) {
		run(t, h, subject+name("./hwtest")+" -test.run ^$ -test.bench . -test.benchtime 200x")
		run(t, h, name("sluice/internal/host/netdev")+" -test.run ^$ -test.bench Links -test.benchtime 200x")
	})
	t.Run("guest", func(t *testing.T) { guestOpensVF(t, h) })
}

var (
	uplinkMoves    = flag.Int("uplink-moves", 10, "how often a guest's path changes there and back on each uplink")
	uplinkRestarts = flag.Int("uplink-restarts", 0, "how often each daemon of Open vSwitch and OVN is restarted under traffic")
)

// TestUplinks moves guests on the Linux bridge, Open vSwitch and OVN, the latter two with the kernel's datapath, and what the host's release
// of Debian has of them.
func TestUplinks(t *testing.T) {
	t.Parallel()
	h := lab.ForTest(t)
	const pkg = "sluice/internal/host/uplink/uplinktest"
	put(t, h, pkg)
	runFor(t, h, 2*time.Hour, fmt.Sprintf("SLUICE_TEST_WHOLE_KERNEL=1 %s -test.v -test.short -moves %d -restarts %d -test.run "+
		"'TestContract/(open_vswitch|ovn)/dual|TestNoFrame|TestOVNRules|TestOVSRestarts|TestWhatRestartsLose|TestOrderUnderOpenVSwitch|TestFunctions'", name(pkg), *uplinkMoves, *uplinkRestarts))
}

// TestVDPA creates NICs in user space on the vDPA bus, for the host and for a virtual PF of a guest.
func TestVDPA(t *testing.T) {
	t.Parallel()
	h := lab.ForTest(t, "vm1")
	put(t, h, "./hwtest")
	build(t, h, vduse, "build", "-o", filepath.Join(t.TempDir(), "vduse"), "sluice/lab/vduse")
	run(t, h, "SLUICE_TEST_VDUSE="+vduse+" "+name("./hwtest")+" -test.v -test.run TestVDPA")
	run(t, h, "SLUICE_TEST_VM=vm4 SLUICE_TEST_VDUSE="+vduse+" "+name("./hwtest")+" -test.v -test.run TestGuestOnVDPA")
}

const vduse = "/tmp/vduse" // on the host

// guestOpensVF attaches and detaches a VF while a test on the host waits for the guest's driver.
func guestOpensVF(t *testing.T, h *lab.Host) {
	p, err := h.Start(t.Context(), subject+name("./hwtest")+" -test.v -test.run TestGuestOpensVF")
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the test to look", func() bool { return strings.Contains(logOf(t, p), "open false") })
	if err := h.AttachVF(t.Context(), "vm1", "pf0", 6); err != nil {
		t.Fatal(err)
	}
	await(t, "the guest to take the VF", func() bool {
		_, carrier, err := h.GuestVF(t.Context(), "vm1")
		return err == nil && carrier
	})
	if err := h.DetachVF(t.Context(), "vm1"); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	t.Log(logOf(t, p))
}

func logOf(t *testing.T, p *lab.Proc) string {
	b, err := os.ReadFile(p.Log)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func name(pkg string) string {
	return "/tmp/sluice-" + strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-") + ".test"
}

// put builds a package's tests without libc, whose version may differ on the host, and copies them there.
func put(t *testing.T, h *lab.Host, pkg string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test")
	build(t, h, name(pkg), "test", "-c", "-tags", "lab", "-o", file, pkg)
}

// build runs the go command, which writes the file named by the argument before the last, and copies that to the host.
func build(t *testing.T, h *lab.Host, place string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = ".."
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	if err := h.Put(t.Context(), args[len(args)-2], place); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), "chmod +x "+place); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, h *lab.Host, command string) {
	t.Helper()
	runFor(t, h, 15*time.Minute, command)
}

func runFor(t *testing.T, h *lab.Host, limit time.Duration, command string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := lab.Output(ctx, h.Command(ctx, command), command) // Run would end it after 5 minutes
	t.Logf("%s\n%s", command, out)
	if err != nil {
		t.Error(err)
	}
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for", what)
		}
	}
}
