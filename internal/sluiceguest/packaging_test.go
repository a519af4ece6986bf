package sluiceguest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// systemd must find nothing to complain about. The program itself is not installed where
// tests run, so another one stands in for it.
func TestUnitVerifies(t *testing.T) {
	if os.Getenv("SLUICE_TEST_NO_SYSTEMD") == "1" {
		t.Skip("SLUICE_TEST_NO_SYSTEMD=1")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../packaging/sluice-guest.service")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sluice-guest.service")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "/usr/sbin/sluice-guest", self)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", path).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify (package systemd): %v\n%s", err, out)
	}
}
