// Package arch checks the import rules of ARCHITECTURE.md.
package arch

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// floors lists, for each directory, which others its packages may import. Imports within a directory are unrestricted: Go rejects
// cycles. A package in no listed directory does not belong in the tree. Test files are not checked, and test helpers may import tests.
var floors = map[string][]string{
	"base":     {},
	"model":    {},
	"channel":  {},
	"config":   {"base", "model"},
	"control":  {"base", "model", "channel"},
	"host":     {"base", "model", "channel", "control", "/api/v1"},
	"inside":   {"base", "channel"},
	"edge":     {"base", "model", "channel", "config", "control", "host/migrate", "host/prepare", "research", "/api/v1"},
	"research": {"base", "model", "config", "control", "/scenarios"},
	"daemon":   {"base", "model", "channel", "config", "control", "host", "edge", "/api/v1"},
	"demo":     {"base", "model", "config", "control", "edge", "research", "/api/v1"},
	"tests":    {},

	"/api/v1":           {},
	"/cmd/sluice":       {"base", "config", "control", "edge", "demo"},
	"/cmd/sluiced":      {"base", "daemon"},
	"/cmd/sluice-cni":   {"base", "inside"},
	"/cmd/sluice-guest": {"base", "inside"},
	"/lab":              {"base", "model", "control", "host", "edge/answer", "edge/client", "tests", "/api/v1", "/packaging/guest"},
	"/packaging":        {},
	"/neutron":          {}, // tests of a Python package
	"/scenarios":        {},
}

// apart lists packages that must not import each other although their directory would allow it.
var apart = map[string][]string{
	"control/placement": {"control/bandwidth", "control/plan", "control/executor", "control/vpf", "control/loop"},
	"control/bandwidth": {"control/placement", "control/plan", "control/executor", "control/vpf", "control/loop"},
	"control/plan":      {"control/placement", "control/bandwidth", "control/executor", "control/vpf", "control/loop"},
	"control/executor":  {"control/placement", "control/bandwidth", "control/plan", "control/vpf", "control/loop"},
	"control/vpf":       {"control/placement", "control/bandwidth", "control/plan", "control/executor", "control/loop"},
	"host/sysif":        {"host/kernel", "host/netdev", "host/bridge", "host/vf", "host/tap", "host/libvirt", "host/guest", "control"},
	"host/netdev":       {"host/kernel", "host/bridge", "host/vf", "host/tap", "host/libvirt", "host/guest", "control"},
	"host/bridge":       {"host/kernel", "host/vf", "host/tap", "host/libvirt", "host/guest", "control"},
	"host/vf":           {"host/kernel", "host/vdpa", "host/tap", "host/mirror", "host/libvirt", "host/guest", "control"},
	"host/vdpa":         {"host/kernel", "host/tap", "host/libvirt", "host/guest", "control"},
	"host/counters":     {"host/kernel", "host/tap", "host/libvirt", "host/guest", "control"},
	"host/bpf":          {"host/kernel", "host/bridge", "host/vf", "host/libvirt", "host/guest", "control"},
	"host/mirror":       {"host/kernel", "host/tap", "host/vf", "host/libvirt", "host/guest", "control"},
	"host/tap":          {"host/kernel", "host/mirror", "host/htb", "host/vf", "host/libvirt", "host/guest", "control"},
	"host/htb":          {"host/kernel", "host/tap", "host/mirror", "host/vf", "host/libvirt", "host/guest", "control"},
	"host/kernel":       {"host/libvirt", "host/guest", "control"},
	"host/libvirt":      {"host/kernel", "host/guest", "control"},
	"host/guest":        {"host/kernel", "host/libvirt", "control"},
	"host/actuate":      {"host/observe", "control"},
	"host/uplink":       {"host/observe", "host/actuate", "host/libvirt", "host/guest", "control"},
	"host/observe":      {"host/actuate", "control/loop", "control/placement", "control/plan", "control/bandwidth"},
	"edge/answer":       {"edge/server", "edge/client", "edge/metrics"},
	"edge/client":       {"edge/server", "edge/metrics"},
	"edge/metrics":      {"edge/server", "edge/client"},
}

type pkg struct {
	ImportPath string
	Imports    []string
	DepOnly    bool
}

func TestImportArrows(t *testing.T) {
	for _, p := range list(t) {
		name := short(p.ImportPath)
		floor := floorOf(name)
		if floor == "" {
			t.Errorf("package %s is on no floor: see floors here and in ARCHITECTURE.md", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, "sluice/") {
				continue
			}
			to := short(imp)
			if under(to, "tests") && slices.Contains(p.Imports, "testing") {
				continue // a test helper
			}
			if !under(to, floor) && !slices.ContainsFunc(floors[floor], func(f string) bool { return under(to, f) }) {
				t.Errorf("%s imports %s: the floor %s may not", p.ImportPath, imp, floor)
			}
			for one, others := range apart {
				if under(name, one) && slices.ContainsFunc(others, func(o string) bool { return under(to, o) }) {
					t.Errorf("%s imports %s: these must stay apart", p.ImportPath, imp)
				}
			}
		}
	}
}

// floorOf returns the directory that a package belongs to, or "".
func floorOf(name string) string {
	for f := range floors {
		if under(name, f) {
			return f
		}
	}
	return ""
}

// under reports whether a package is the named one, or in its directory.
func under(name, folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }

// TestDaemonStaysSmall keeps code that only research and interactive use need out of the root process.
func TestDaemonStaysSmall(t *testing.T) {
	unwanted := regexp.MustCompile(`^text/template|gonum|tcell|uniseg|font|latex|freetype|x/image|cobra|pflag|gophercloud|` +
		`internal/(research/|demo|edge/(cli|fleet|whatif|top|dashboard)(/|$))`)
	out, err := exec.Command("go", "list", "-deps", "sluice/cmd/sluiced").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(string(out)) {
		if unwanted.MatchString(path) {
			t.Errorf("sluiced contains %s", path)
		}
	}
}

// TestGuestStaysSmall keeps code that only hosts need out of guests.
func TestGuestStaysSmall(t *testing.T) {
	unwanted := regexp.MustCompile(`libvirt|ebpf|yaml|cobra|pflag|^net/http$|internal/(model|control|host)`)
	for _, program := range []string{"sluice-guest", "sluice-cni"} {
		out, err := exec.Command("go", "list", "-deps", "sluice/cmd/"+program).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range strings.Fields(string(out)) {
			if unwanted.MatchString(path) {
				t.Errorf("%s contains %s", program, path)
			}
		}
	}
}

// short returns the name used above: relative to internal/, or relative to the root with a leading slash.
func short(path string) string {
	if rest, ok := strings.CutPrefix(path, "sluice/internal/"); ok {
		return rest
	}
	return strings.TrimPrefix(path, "sluice")
}

// list returns every package of the module. It ignores the imports of test files.
func list(t *testing.T) []pkg {
	t.Helper()
	touch(t)
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "sluice/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// touch reads every source file, so that Go's test cache knows what the result depends on.
func touch(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		_, err = os.Stat(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
