package openstack_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"sluice/internal/edge/fleet/fleettest"
	"sluice/internal/edge/fleet/openstack"
)

// The contract holds with OpenStack's own Placement.
func TestRealPlacement(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server: make long runs it")
	}
	l, err := openstack.Connect(t.Context(), placement(t))
	if err != nil {
		t.Fatal(err)
	}
	fleettest.Contract(t, l)
}

// The demo of a fleet does all that it says, on a real Placement.
func TestFleetDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server and three daemons: make long runs it")
	}
	placement(t) // skips if it cannot be installed
	program := filepath.Join(t.TempDir(), "sluice")
	if out, err := exec.Command("go", "build", "-o", program, "sluice/cmd/sluice").CombinedOutput(); err != nil { //nolint:gosec // fixed
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command("../../../../scripts/fleet-demo")
	cmd.Env = append(os.Environ(), "SLUICE="+program)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		`(?m)^0b0c4fa4-6d2c-4b0e-9a35-5b9a2c2a1f01 has 2Gbit on PF \S+ of host host\d$`,
		`(?m)^host1 +\S+ +br0 +up +40Gbit +[35]Gbit +3[57]Gbit$`, // claimed, with or without the VM that was placed
		`(?m)^\S+ +52:54:00:00:00:00 +3Gbit +host1 +host[23] +\S+ +the host is to be emptied$`,
		`(?m)^\S+ +52:54:00:00:00:00 +3Gbit +host[23] +\S+$`, // evacuated
		`(?m)^host1 +\S+ +br0 +drained +40Gbit +0 +40Gbit$`,
		`"host3:9178"`,
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// placement starts a server and returns its address.
func placement(t *testing.T) string {
	t.Helper()
	if os.Getenv("SLUICE_TEST_NO_PLACEMENT") == "1" {
		t.Skip("SLUICE_TEST_NO_PLACEMENT=1")
	}
	var failed bytes.Buffer
	cmd := exec.Command("../../../../scripts/placement", t.TempDir()) //nolint:gosec // it is killed below
	cmd.Stderr = &failed
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var port int
	if _, err := fmt.Fscan(out, &port); err != nil {
		_ = cmd.Wait()
		if cmd.ProcessState.ExitCode() == notInstalled {
			t.Skipf("no Placement from PyPI: %s", &failed)
		}
		t.Fatalf("Placement has not started: %v, %v\n%s", err, cmd.ProcessState, &failed)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}

// notInstalled is the exit code of scripts/placement if PyPI does not give it.
const notInstalled = 75
