package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machine is a made-up machine to run scripts/deps on: what is installed, and the user.
type machine struct {
	goVersion string // version of its go; "": not installed
	aptGo     string // version of golang-go that apt offers
	backports string // golang-1.N-go that apt also offers
	packages  string // installed, separated by spaces
	user      string // id
	sudo      bool   // without a password
	noAPT     bool
}

// run returns the output of scripts/deps, and its calls of apt-get.
func (m machine) run(t *testing.T, purpose string) (out, apt string, ok bool) {
	t.Helper()
	dir := t.TempDir()
	for _, tool := range []string{"bash", "dirname", "env", "grep", "sort", "head", "tail", "awk", "sed", "cat", "touch"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, tool)); err != nil {
			t.Fatal(err)
		}
	}
	program := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+text+"\n"), 0o755); err != nil { //nolint:gosec // to be run
			t.Fatal(err)
		}
	}
	log := filepath.Join(dir, "apt.log")
	newGo := `printf '#!/bin/bash\necho go version go1.24 linux/amd64' > ` + dir + `/go; /bin/chmod +x ` + dir + `/go`
	if m.goVersion != "" {
		program("go", "echo go version go"+m.goVersion+" linux/amd64")
	}
	program("dpkg-query", `case " `+m.packages+` " in *" ${@: -1} "*) echo install ok installed ;; *) exit 1 ;; esac`)
	program("id", "echo "+m.user)
	if m.sudo {
		program("sudo", `[ "$1" = -n ] && shift; "$@"`)
		program("true", "")
	}
	if !m.noAPT {
		program("apt-get", `echo "$*" >> `+log+`; case "$*" in install*golang*) `+newGo+` ;; esac`)
		program("apt-cache", `case $1 in policy) echo '  Candidate: 2:`+m.aptGo+`' ;; search) echo '`+m.backports+` - Go' ;; esac`)
	}
	cmd := exec.CommandContext(t.Context(), "../../../scripts/deps", purpose)
	cmd.Env = []string{"PATH=" + dir, "GO_PLACES="}
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	did, _ := os.ReadFile(log)
	return string(b), string(did), err == nil
}

// Both commands install what they need, or say what to do before anything is built.
func TestDeps(t *testing.T) {
	const basics = "make ca-certificates"
	const tools = basics + " git libvirt-daemon-system libvirt-clients qemu-system-x86 qemu-guest-agent" +
		" iproute2 openvswitch-switch ovn-central ovn-host prometheus shellcheck chromium-headless-shell fonts-dejavu-core groff-base" +
		" systemd rpm python3-venv python3-pytest ansible-core mmdebstrap e2fsprogs zstd cpio openssh-client"
	for _, c := range []struct {
		name, purpose string
		m             machine
		apt           string // expected arguments of apt-get; "": not called
		says          string
		fails         bool
	}{
		{"all there", "test", machine{goVersion: "1.26.8", packages: tools + " gcc libc6-dev", user: "1000"}, "", "", false},
		{"demo needs no compiler", "demo", machine{goVersion: "1.21.0", packages: basics, user: "1000"}, "", "", false},
		{
			"no compiler", "test",
			machine{goVersion: "1.26.8", packages: tools, user: "0"},
			"install -y -qq --no-install-recommends gcc libc6-dev",
			"installing gcc libc6-dev", false,
		},
		{
			"no compiler, nobody to install it", "test",
			machine{goVersion: "1.26.8", packages: tools, user: "1000"},
			"",
			"missing: gcc libc6-dev. Run this as root", true,
		},
		{
			"sudo", "test",
			machine{goVersion: "1.26.8", packages: tools, user: "1000", sudo: true},
			"install -y -qq --no-install-recommends gcc libc6-dev", "", false,
		},
		{"no Go", "demo", machine{aptGo: "1.24~2", packages: basics, user: "0"}, "recommends golang-go\n", "", false},
		{
			"no Go and no right", "demo",
			machine{aptGo: "1.24~2", packages: basics, user: "1000"},
			"", "missing: golang-go. Run this as root",
			true,
		},
		{
			"old Go, backports", "demo",
			machine{goVersion: "1.19.8", aptGo: "1.19~1", backports: "golang-1.24-go", packages: basics, user: "0"},
			"recommends golang-1.24-go\n", "", false,
		},
		{
			"old Go", "demo",
			machine{goVersion: "1.19.8", aptGo: "1.19~1", backports: "golang-1.19-go", packages: basics, user: "0"},
			"",
			"apt has only 1.19: install Go in another way, or add", true,
		},
		{"no apt", "demo", machine{packages: basics, user: "0", noAPT: true}, "", "This machine has no apt-get", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, apt, ok := c.m.run(t, c.purpose)
			if ok == c.fails || !strings.Contains(out, c.says) {
				t.Errorf("ok %v, said %q; want %q", ok, out, c.says)
			}
			if !strings.Contains(apt, c.apt) || c.apt == "" && apt != "" {
				t.Errorf("apt-get did %q, want %q", apt, c.apt)
			}
		})
	}
}
