// Package arch checks the import arrows that ARCHITECTURE.md draws.
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

// may lists, for each package of ours, all that it may import of ours. What is not
// listed here does not belong in the tree.
var may = map[string][]string{
	"model":           {},
	"input":           {},
	"config":          {"model", "input"},
	"/api/v1":         {},
	"statefile":       {},
	"placement":       {"model"},
	"plan":            {"model"},
	"kernel":          {"model", "kernel/rtnl"},
	"kernel/rtnl":     {},
	"kernel/frames":   {"model"},
	"libvirt":         {"model", "channel", "libvirt/domxml"},
	"libvirt/domxml":  {},
	"prepare":         {"model", "libvirt/domxml"},
	"guest":           {"model", "channel"},
	"claim":           {"model"},
	"doctor":          {"model"},
	"observe":         {"doctor", "model", "kernel", "libvirt", "guest", "claim"},
	"actuate":         {"model", "kernel", "libvirt", "guest"},
	"executor":        {"model"},
	"vpf":             {"model", "channel", "input", "statefile"},
	"channel":         {},
	"vfsysfs":         {"channel"},
	"sluiceguest":     {"channel", "vfsysfs", "kernel/rtnl"},
	"cni":             {"channel", "vfsysfs", "kernel/rtnl", "statefile"},
	"bandwidth":       {"model"},
	"loop":            {"bandwidth", "model", "placement", "plan", "executor"},
	"sim":             {"bandwidth", "bandwidth/fluid", "model", "plan", "loop", "placement"},
	"workload":        {"model", "sim", "claim"},
	"oracle":          {"model", "sim", "loop", "placement", "workload"},
	"trace":           {"model", "sim", "input"},
	"scenario":        {"bandwidth", "bandwidth/fluid", "model", "sim", "loop", "placement", "workload", "trace", "oracle", "config", "plan"},
	"report":          {"model", "scenario", "oracle", "trace", "input"},
	"page":            {},
	"dashboard":       {},
	"web":             {"model", "statefile", "/api/v1"},
	"history":         {"model", "web", "/api/v1"},
	"migrate":         {"model", "libvirt/domxml"},
	"whatif":          {"model", "placement", "scenario", "trace", "history", "/api/v1"},
	"top":             {"model", "input", "web", "/api/v1"},
	"cli":             {"top", "history", "whatif", "dashboard", "bandwidth", "migrate", "model", "input", "web", "/api/v1", "scenario", "report", "trace", "oracle", "config", "placement"},
	"backend":         {"bandwidth", "model", "loop", "web", "input", "statefile", "/api/v1"},
	"demo":            {"/api/v1", "whatif", "page", "bandwidth", "doctor", "workload", "model", "loop", "sim", "web", "backend", "history", "cli"},
	"daemon":          {"page", "bandwidth", "doctor", "model", "config", "placement", "plan", "kernel", "libvirt", "guest", "observe", "actuate", "loop", "vpf", "web", "backend", "history", "statefile", "prepare", "qualify", "qualify/measure", "kernel/frames", "input", "/api/v1"},
	"qualify":         {"model", "/api/v1"},
	"qualify/measure": {"qualify", "model", "kernel", "kernel/frames", "input", "statefile", "/api/v1"},
	"version":         {},
	"arch":            {},
	"golden":          {},
	"published":       {},
	"monitoring":      {},
	"docs":            {},
	"testkit":         {},
	"mutate":          {},
	"/cmd/sluice":     {"bandwidth", "cli", "config", "demo", "placement", "version"},
	"/cmd/sluiced":    {"daemon", "version"},
	"/cmd/sluice-cni": {"cni", "version"},

	"/cmd/sluice-guest": {"sluiceguest", "version"},
	"/lab":              {"/lab/cache", "/packaging/guest"},
	"/lab/cache":        {},
	"/lab/vpflab":       {"/lab", "/lab/cache"},
	"/lab/e2e":          {"testkit", "web", "/api/v1", "plan", "/lab"},
	"/lab/cmd/labctl":   {"/lab", "/lab/vpflab"},
	"/lab/vduse":        {},
	"/packaging":        {}, // tests of the packages
	"/packaging/guest":  {},
	"/lab/bench":        {"bandwidth", "guest", "kernel", "model"},

	"/lab/vpflab/e2e":    {"/lab", "/lab/vpflab", "web", "/api/v1"},
	"/lab/vpflab/frames": {},
}

type pkg struct {
	ImportPath string
	Imports    []string
	DepOnly    bool
}

func TestImportArrows(t *testing.T) {
	for _, p := range list(t) {
		name := short(p.ImportPath)
		allowed, known := may[base(name)]
		if !known {
			t.Errorf("package %s is not in the architecture: add it here and in ARCHITECTURE.md", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, "sluice/") || slices.Contains(allowed, "*") {
				continue
			}
			if to := short(imp); base(to) != base(name) && !slices.Contains(allowed, base(to)) {
				t.Errorf("%s imports %s, which points the wrong way", p.ImportPath, imp)
			}
		}
	}
}

// TestDaemonStaysSmall keeps what only research and people need out of the root process.
func TestDaemonStaysSmall(t *testing.T) {
	unwanted := regexp.MustCompile(`^text/template|gonum|tcell|uniseg|font|latex|freetype|x/image|cobra|pflag|internal/(cli|scenario|report|oracle|trace|workload|sim|demo|whatif|top)$`)
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

// TestGuestStaysSmall keeps out of guests what only hosts need.
func TestGuestStaysSmall(t *testing.T) {
	unwanted := regexp.MustCompile(`libvirt|ebpf|yaml|cobra|pflag|^net/http$|internal/(model|kernel|guest)$`)
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

// short is the name used above: relative to internal/, or from the root with a slash.
func short(path string) string {
	if rest, ok := strings.CutPrefix(path, "sluice/internal/"); ok {
		return rest
	}
	return strings.TrimPrefix(path, "sluice")
}

// base folds test helpers (kernel/kerneltest) and commands (oracle/cmd/table) into their package.
func base(name string) string {
	if _, ok := may[name]; ok {
		return name
	}
	if i := strings.LastIndexByte(name, '/'); i > 0 {
		return base(name[:i])
	}
	return name
}

// list is every package of the module; imports of test files do not count.
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

// touch looks at every source file, so that Go's test cache knows what the result hangs on.
func touch(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
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
