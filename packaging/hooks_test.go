package packaging

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ways is a host with the hooks and sluice.
type ways struct {
	dir    string
	docs   map[string]string // a domain's XML of each caller
	sluice string
}

func newWays(t *testing.T) *ways {
	t.Helper()
	w := &ways{dir: t.TempDir(), docs: map[string]string{}}
	w.sluice = filepath.Join(w.dir, "sluice")
	output(t, "go", "build", "-o", w.sluice, "../cmd/sluice")
	for _, name := range []string{"filter", "cloudstack", "vdsm", "opennebula"} {
		text, err := os.ReadFile(filepath.Join("hooks", name))
		if err != nil {
			t.Fatal(err)
		}
		w.write(t, name, strings.NewReplacer("/usr/bin/sluice", w.sluice, "/usr/share/sluice/hooks/filter", w.dir+"/filter").Replace(string(text)))
		if name == "filter" {
			continue
		}
		doc, err := os.ReadFile("../internal/host/prepare/testdata/" + name + ".xml")
		if err != nil {
			t.Fatal(err)
		}
		w.docs[name] = string(doc)
	}
	return w
}

func (w *ways) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o755); err != nil { //nolint:gosec // programs
		t.Fatal(err)
	}
}

// call runs a program as its caller does, and returns stdout, with stderr in it if both is set.
func (w *ways) call(t *testing.T, both bool, in string, env []string, args ...string) string {
	t.Helper()
	var out, err bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(w.dir, args[0]), args[1:]...) //nolint:gosec // of this test
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = strings.NewReader(in), &out, &err, append(os.Environ(), env...)
	if both {
		cmd.Stderr = &out
	}
	if e := cmd.Run(); e != nil {
		t.Fatalf("%q: %v\n%s%s", args, e, &out, &err)
	}
	return out.String()
}

// through returns what becomes of the XML by each hook, called as its caller calls it.
func (w *ways) through(t *testing.T) map[string]string {
	t.Helper()
	got := map[string]string{}
	// LibvirtKvmAgentHook.handle: the method and the XML as arguments; all lines of the output, each with its end; stderr is among them.
	got["cloudstack"] = strings.TrimSuffix(w.call(t, true, "", nil, "cloudstack", "transform", strings.TrimSuffix(w.docs["cloudstack"], "\n")), "\n") + "\n"

	// hooks._runHooksDir: a file named by the environment, read again by its name.
	file := filepath.Join(w.dir, "domxml")
	w.write(t, "domxml", w.docs["vdsm"])
	w.call(t, false, "", []string{"_hook_domxml=" + file}, "vdsm")
	data, err := os.ReadFile(file) //nolint:gosec // of this test
	if err != nil {
		t.Fatal(err)
	}
	got["vdsm"] = string(data)
	if left, _ := filepath.Glob(file + ".*"); len(left) > 0 {
		t.Errorf("vdsm: it leaves %q", left)
	}

	// OpenNebulaDriver.do_action: the file's name, the host, the VM's number and the host again as arguments, the XML and an empty line on
	// stdin; the VM's UUID is what is printed.
	w.write(t, "deploy.opennebula", "#!/bin/sh\ncat >\"$1\"\necho \"uuid $2\"\n")
	file = filepath.Join(w.dir, "deployment.0")
	if said := w.call(t, false, w.docs["opennebula"]+"\n", nil, "opennebula", file, "host-1", "7", "host-1"); said != "uuid host-1\n" {
		t.Errorf("opennebula: it printed %q", said)
	}
	if data, err = os.ReadFile(file); err != nil { //nolint:gosec // of this test
		t.Fatal(err)
	}
	got["opennebula"] = strings.TrimSuffix(string(data), "\n")
	return got
}

// Every hook prepares the XML, and passes it on as it was when sluice refuses, fails, prints nothing or is not there.
func TestHooksOfOthers(t *testing.T) {
	w := newWays(t)
	for name, got := range w.through(t) {
		if !strings.Contains(got, "<teaming type='persistent'/>") {
			t.Errorf("%s: it is not prepared:\n%s", name, got)
		}
		if back := w.call(t, false, got, nil, "sluice", "prepare", "--filter", "--undo"); back != w.docs[name] {
			t.Errorf("%s: undone it is\n%s", name, back)
		}
	}
	for name, script := range map[string]string{
		"fails": "echo no >&2; exit 1", "is killed": "echo '<domain>'; kill -9 $$", "prints nothing": "cat >/dev/null", "does not read": "exit 127",
	} {
		w.write(t, "sluice", "#!/bin/sh\n"+script+"\n")
		w.unchanged(t, name)
	}
	if err := os.Remove(w.sluice); err != nil {
		t.Fatal(err)
	}
	w.unchanged(t, "no sluice")
	if err := os.Remove(filepath.Join(w.dir, "filter")); err != nil {
		t.Fatal(err)
	}
	w.unchanged(t, "no filter")
}

func (w *ways) unchanged(t *testing.T, when string) {
	t.Helper()
	for name, got := range w.through(t) {
		if got != w.docs[name] {
			t.Errorf("%s, %s: the XML became\n%q", name, when, got)
		}
	}
}
