package daemon

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args, out, err string
		code           int
	}{
		{args: "--version", out: "sluiced 1.2.3\n"},
		{args: "--help", err: "-config file"},
		{args: "--nope", err: "flag provided but not defined: -nope", code: exitUsage},
		{args: "run", err: `sluiced: unexpected argument "run": sluiced takes only flags; see`, code: exitUsage},
		{args: "--mode force", err: `sluiced: --mode must be observe or enforce, not "force"`, code: exitUsage},
		{args: "--config /nowhere.yaml", err: "sluiced: /nowhere.yaml: ", code: exitError},
		{args: "--offline --config /nowhere.yaml", err: "sluiced: /nowhere.yaml: ", code: exitError},
	} {
		var out, text bytes.Buffer
		if code := Main(t.Context(), strings.Fields(c.args), &out, &text, "1.2.3"); code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.args, code, c.code)
		}
		if out.String() != c.out || !strings.Contains(text.String(), c.err) {
			t.Errorf("%s: printed %q and %q, want %q and %q", c.args, &out, &text, c.out, c.err)
		}
	}
}

// The command line in the unit must be valid.
func TestUnitStartsTheDaemon(t *testing.T) {
	unit, err := os.ReadFile("../../packaging/sluice.service")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/sluiced (.*)$`).FindSubmatch(unit)
	if m == nil {
		t.Fatal("no ExecStart")
	}
	var out, text bytes.Buffer
	if code := Main(t.Context(), append(strings.Fields(string(m[1])), "--version"), &out, &text, "1"); code != 0 {
		t.Errorf("exit code %d: %s", code, &text)
	}
}

// The manual documents every flag.
func TestManualHasEveryFlag(t *testing.T) {
	page, err := os.ReadFile("../../packaging/man/sluiced.8")
	if err != nil {
		t.Fatal(err)
	}
	var out, text bytes.Buffer
	Main(t.Context(), []string{"--help"}, &out, &text, "1")
	flags := regexp.MustCompile(`(?m)^  -([a-z-]+)`).FindAllStringSubmatch(text.String(), -1)
	if len(flags) < 6 {
		t.Fatalf("flags: %v", flags)
	}
	for _, f := range flags {
		if term := `\fB` + strings.ReplaceAll("--"+f[1], "-", `\-`) + `\fR`; !strings.Contains(string(page), "\n"+term) {
			t.Errorf("sluiced(8) lacks --%s", f[1])
		}
	}
}

// Peers are addresses, with a port or without; a wrong one is refused with an example.
func TestPeers(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7:9179", "192.0.2.7:80": "192.0.2.7:80", "2001:db8::7": "[2001:db8::7]:9179", "[2001:db8::7]:80": "[2001:db8::7]:80",
	} {
		if got, err := parsePeer(text); err != nil || got.String() != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "host", "host:80", "192.0.2.7:0", "192.0.2.7:70000", "192.0.2.7:"} {
		var out, said bytes.Buffer
		if code := Main(t.Context(), []string{"--qualify", "pf0", "--peer", text}, &out, &said, "1"); code != exitUsage ||
			!strings.Contains(said.String(), "write 192.0.2.7, 192.0.2.7:9179 or [2001:db8::7]:9179") {
			t.Errorf("%q: exit %d, %s", text, code, said.String())
		}
	}
}

// A qualification whose output is no longer read continues and restores everything: the first write does not end it.
func TestQualifyOutlivesItsReader(t *testing.T) {
	for _, arg := range []string{"--qualify=pf0", "--qualify-restore"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		cmd := exec.CommandContext(t.Context(), "sluiced", "--config", filepath.Join(t.TempDir(), "none.yaml"), arg)
		cmd.Stderr = w
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitError {
			t.Errorf("%s: %v, want an end of its own with code %d", arg, err, exitError)
		}
		_ = w.Close()
	}
}
