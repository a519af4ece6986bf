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

// Whatever is wrong, each fault has its line: none hides those behind it.
func TestDoctorNamesEveryFault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	text := "libvirt: {uri: \"qemu+unix:///system?socket=/nowhere/libvirt-sock\"}\npfs: [{name: absent7, vfs: all}, {name: absent8, vfs: all}]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	failed := func(path string) (list []string) {
		for _, c := range Doctor(t.Context(), path).Checks {
			if c.Result == "fail" {
				list = append(list, c.Subject+": "+c.Text)
			}
			if c.Result != "pass" && c.Remedy == "" {
				t.Errorf("no remedy: %+v", c)
			}
		}
		return list
	}
	for _, c := range []struct {
		path string
		want []string
	}{
		{path, []string{`config: .*unknown PF "absent7"`, `config: .*unknown PF "absent8"`, `libvirt: .*/nowhere/libvirt-sock`}},
		{"/nowhere.yaml", []string{`config: /nowhere.yaml: open`, `libvirt: `}},
	} {
		all := strings.Join(failed(c.path), "\n")
		for _, want := range c.want {
			if !regexp.MustCompile("(?m)^" + want).MatchString(all) {
				t.Errorf("%s: no %q in\n%s", c.path, want, all)
			}
		}
	}
}

// prepare without a daemon names all that keeps it from its work.
func TestPrepareOfflineNamesEveryFault(t *testing.T) {
	err := PrepareOffline(t.Context(), "/nowhere.yaml", strings.NewReader(`{"all": true, "dry_run": true}`), &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "/nowhere.yaml") {
		t.Fatalf("error %v does not name the config", err)
	}
	if _, no := askLibvirt(t.Context(), "qemu:///system"); no != nil && !strings.Contains(err.Error(), no.Error()) {
		t.Errorf("error %v does not name libvirt's: %v", err, no)
	}
}
