package sluiceguest

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/internal/channel"
)

// systemd accepts the unit without complaints. The program is not installed where tests run, so another one replaces it.
func TestUnitVerifies(t *testing.T) {
	if os.Getenv("SLUICE_TEST_NO_SYSTEMD") == "1" {
		t.Skip("SLUICE_TEST_NO_SYSTEMD=1")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../../packaging/sluice-guest.service")
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

// The manual documents every command and every flag.
func TestManual(t *testing.T) {
	text, err := os.ReadFile("../../../packaging/man/sluice-guest.8")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(text), `\-`, "-")
	var help strings.Builder
	Main(t.Context(), []string{"-h"}, io.Discard, &help, "1")
	terms := regexp.MustCompile(`(?m)^  (-?[a-z][a-z-]*)(?:  +| [a-z]+$|$)`).FindAllStringSubmatch(help.String(), -1)
	if len(terms) < 9 {
		t.Fatalf("commands and flags: %v", terms)
	}
	for _, term := range terms {
		if term[1] != "sluice-guest" && !strings.Contains(page, "\n.TP\n\\fB"+term[1]+"\\fR") {
			t.Errorf("sluice-guest(8) lacks %s", term[1])
		}
	}
	if !strings.Contains(page, channel.Socket) {
		t.Errorf("sluice-guest(8) lacks %s", channel.Socket)
	}
}
