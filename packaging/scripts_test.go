package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// removal is a host on which a `sluice qualify` was killed, as far as the scripts see it.
type removal struct {
	root, journal string
	env           []string
}

// newRemoval has `sluice qualify --restore` do what restore says, a line of shell.
func newRemoval(t *testing.T, restore string) *removal {
	t.Helper()
	r := &removal{root: t.TempDir()}
	r.journal = filepath.Join(r.root, "run/sluice/qualify-7.json")
	r.env = []string{"PATH=" + r.root + "/bin:/usr/bin:/bin", "JOURNAL=" + r.journal, "LOG=" + r.root + "/log"}
	r.write(t, "run/systemd/system/x", "")
	r.write(t, "var/lib/sluice/journal", "")
	r.write(t, "run/sluice/qualify-7.json", "{}")
	r.write(t, "bin/systemctl", "#!/bin/sh\necho systemctl >>\"$LOG\"\n")
	r.write(t, "bin/sluice", "#!/bin/sh\n[ \"$1\" = qualify ] || exit 4\necho \"sluice $*\" >>\"$LOG\"\n"+restore+"\n")
	return r
}

func (r *removal) write(t *testing.T, path, text string) {
	t.Helper()
	path = filepath.Join(r.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // of a test
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // programs
		t.Fatal(err)
	}
}

// run runs a script on that host and returns what it says.
func (r *removal) run(t *testing.T, script, word string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("scripts", script))
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("/run/", r.root+"/run/", "/var/lib/", r.root+"/var/lib/").Replace(string(text))
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", here, script, word)
	cmd.Env = r.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", script, word, err, out)
	}
	return string(out)
}

func (r *removal) has(path string) bool {
	_, err := os.Stat(filepath.Join(r.root, path))
	return err == nil
}

// Removing the package restores what a killed `sluice qualify` left. If that fails, the removal says so, and the journal, the only
// record of the VFs' state, survives a purge.
func TestRemovalRestoresQualify(t *testing.T) {
	for name, c := range map[string]struct {
		restore string
		back    bool
	}{
		"put back":              {`rm "$JOURNAL"`, true},
		"it fails":              {`echo no libvirt >&2; exit 1`, false},
		"another host's":        {`echo Nothing is set aside.`, false}, // of another network namespace
		"programs do not start": {`exit 127`, false},
	} {
		for _, word := range []string{"remove", "0"} {
			r := newRemoval(t, c.restore)
			said := r.run(t, "sluice-prerm", word)
			if log, _ := os.ReadFile(r.root + "/log"); string(log) != "systemctl\nsluice qualify --restore\n" {
				t.Errorf("%s, %s: the removal ran %q", name, word, log)
			}
			if left := strings.Contains(said, "NOT RESTORED: VFs that "+r.journal); left == c.back {
				t.Errorf("%s, %s: the removal says %q", name, word, said)
			}
			said = r.run(t, "sluice-postrm", "purge")
			if r.has("run/sluice/qualify-7.json") == c.back || r.has("run/sluice") == c.back || r.has("var/lib/sluice") {
				t.Errorf("%s, %s: journal %v, /run/sluice %v, /var/lib/sluice %v after the purge", name, word, r.has("run/sluice/qualify-7.json"),
					r.has("run/sluice"), r.has("var/lib/sluice"))
			}
			if strings.Contains(said, r.journal) == c.back {
				t.Errorf("%s, %s: the purge says %q", name, word, said)
			}
		}
	}
}

// Without a journal there is nothing to restore, and at an upgrade the new version finds it.
func TestRemovalWithoutQualify(t *testing.T) {
	r := newRemoval(t, "")
	r.run(t, "sluice-prerm", "upgrade")
	r.run(t, "sluice-prerm", "1")
	if !r.has("run/sluice/qualify-7.json") || r.has("log") {
		t.Error("an upgrade restores VFs")
	}
	if err := os.Remove(r.journal); err != nil {
		t.Fatal(err)
	}
	if said := r.run(t, "sluice-prerm", "remove"); said != "" {
		t.Errorf("nothing is left, and the removal says %q", said)
	}
	if log, _ := os.ReadFile(r.root + "/log"); string(log) != "systemctl\n" {
		t.Errorf("the removal ran %q", log)
	}
}

// The group is also created on a minimal Debian, which has no systemd-sysusers.
func TestInstallMakesTheGroup(t *testing.T) {
	for name, c := range map[string]struct {
		programs  map[string]string // what they do after they are noted
		log, said string
	}{
		"systemd-sysusers": {map[string]string{"systemd-sysusers": "", "groupadd": ""}, "systemd-sysusers sluice.conf\n", ""},
		"groupadd":         {map[string]string{"getent": "exit 2", "groupadd": ""}, "getent group sluice\ngroupadd --system sluice\n", ""},
		"it is there":      {map[string]string{"getent": "", "groupadd": ""}, "getent group sluice\n", ""},
		"neither":          {map[string]string{"getent": "exit 2"}, "getent group sluice\n", "create the group sluice"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRemoval(t, "")
			r.env = []string{"PATH=" + r.root + "/bin", "LOG=" + r.root + "/log"}
			if err := os.RemoveAll(filepath.Join(r.root, "run/systemd")); err != nil { // an image is being made
				t.Fatal(err)
			}
			for program, does := range c.programs {
				r.write(t, "bin/"+program, "#!/bin/sh\necho "+program+" \"$@\" >>\"$LOG\"\n"+does+"\n")
			}
			said := r.run(t, "sluice-postinst", "configure")
			if log, _ := os.ReadFile(r.root + "/log"); string(log) != c.log || !strings.Contains(said, c.said) || c.said == "" && said != "" {
				t.Errorf("it ran %q and says %q", log, said)
			}
		})
	}
}
