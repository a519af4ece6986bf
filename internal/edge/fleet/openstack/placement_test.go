package openstack_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/edge/fleet/fleettest"
	"sluice/internal/edge/fleet/openstack"
)

// Versions of the real Placement.
var packages = []string{"openstack-placement==16.0.0", "waitress==3.0.2"}

// It prints its port. One thread: with SQLite, Placement answers 500 to writers that come at once.
const serve = `import os, sys
os.environ['OS_PLACEMENT_CONFIG_DIR'] = sys.argv[1]
from placement.wsgi.api import application
from waitress.server import create_server
server = create_server(application, host='127.0.0.1', port=0, threads=1)
print(server.effective_port, flush=True)
server.run()
`

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

// placement starts a server and returns its address.
func placement(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	config := "[DEFAULT]\nlog_file=" + dir + "/log\n[api]\nauth_strategy=noauth2\n" +
		"[placement_database]\nconnection=sqlite:///" + dir + "/placement.db\nsync_on_startup=true\n"
	if err := os.WriteFile(filepath.Join(dir, "placement.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var failed bytes.Buffer
	cmd := exec.Command(python(t), "-c", serve, dir) //nolint:gosec // it is killed below
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
		_ = cmd.Process.Kill()
		t.Fatalf("Placement has not started: %v, %v\n%s", err, cmd.Wait(), &failed)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}

// python returns that of an environment with Placement, which is kept for the next time.
func python(t *testing.T) string {
	t.Helper()
	if os.Getenv("SLUICE_TEST_NO_PLACEMENT") == "1" {
		t.Skip("SLUICE_TEST_NO_PLACEMENT=1")
	}
	dir, err := filepath.Abs("../../../../.cache/placement")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a cache
		t.Fatal(err)
	}
	lock, err := os.Create(dir + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	done := filepath.Join(dir, strings.Join(packages, "-"))
	if _, err := os.Stat(done); err != nil {
		for _, args := range [][]string{
			{"python3", "-m", "venv", "--clear", dir},
			append([]string{dir + "/bin/pip", "install", "-q", "--disable-pip-version-check"}, packages...),
		} {
			if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil { //nolint:gosec // fixed
				t.Skipf("no Placement from PyPI: %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		}
		if err := os.WriteFile(done, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir + "/bin/python"
}
