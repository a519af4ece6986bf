package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const unit = "../../../packaging/sluice.service"

func unitText(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// systemd reports no problems with the unit. The program is not installed where tests run, so another one is substituted.
func TestUnitVerifies(t *testing.T) {
	if os.Getenv("SLUICE_TEST_NO_SYSTEMD") == "1" {
		t.Skip("SLUICE_TEST_NO_SYSTEMD=1")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sluice.service")
	text := strings.ReplaceAll(unitText(t), "/usr/bin/sluiced", self)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", path)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil || out.Len() > 0 {
		t.Errorf("systemd-analyze verify (package systemd): %v\n%s", err, &out)
	}
}

// Hardening must not remove what the daemon needs.
func TestUnitLeavesWhatTheDaemonNeeds(t *testing.T) {
	text := unitText(t)
	for _, want := range []string{
		"Type=notify", "Restart=on-failure", "ExecReload=/bin/kill -HUP $MAINPID", "WatchdogSec=",
		"RuntimeDirectory=sluice", "StateDirectory=sluice", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_ADMIN", "CAP_BPF",
		"AF_NETLINK", "AF_PACKET", "AF_UNIX", "@system-service bpf",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s", want)
		}
	}
	for _, bad := range []string{
		"\nProtectKernelTunables=yes", "\nProcSubset=pid", "\nPrivateNetwork=yes", "\nPrivateUsers=yes",
		"\nPrivateBPF=yes", "\nUser=",
	} {
		if strings.Contains(text, bad) {
			t.Errorf("has%s, and the daemon could not work", bad)
		}
	}
}
