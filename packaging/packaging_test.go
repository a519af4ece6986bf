// Package packaging holds what scripts/package makes packages of; its tests build them.
package packaging

import (
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// settings of a machine that must not show in a package.
type settings struct{ umask, zone, dir string }

var here = settings{"022", "UTC", "a"}

// build makes the packages out of a copy of the tree, under other settings, and returns
// the directory that they are in.
func build(ctx context.Context, base string, s settings) (string, error) {
	tools, err := filepath.Abs("../.cache/bin")
	if err != nil {
		return "", err
	}
	for _, tool := range []string{"nfpm", "sbom"} {
		if _, err := os.Stat(filepath.Join(tools, tool)); err != nil {
			return "", fmt.Errorf("a program to build packages with is missing (`make tools` makes it): %w", err)
		}
	}
	dir := filepath.Join(base, s.dir)
	script := `umask $UMASK && mkdir -p "$DIR" && cd .. &&
		git ls-files -coz --exclude-standard | grep -z . | while IFS= read -r -d '' f; do [ -e "$f" ] && printf '%s\0' "$f"; done |
		tar -c --null -T - | tar -x --no-same-permissions -C "$DIR" && cd "$DIR" && scripts/package`
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", script)
	cmd.Env = append(os.Environ(), "UMASK="+s.umask, "TZ="+s.zone, "DIR="+dir, "NFPM="+tools+"/nfpm", "SBOM="+tools+"/sbom",
		"SOURCE_DATE_EPOCH=1700000000", "SLUICE_PACKAGE_VERSION=1.2.3", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("scripts/package: %w\n%s", err, out)
	}
	return filepath.Join(dir, "dist"), nil
}

var once struct {
	sync.Once
	base, dir string
	err       error
}

// packages is the directory of packages that all tests share.
func packages(t *testing.T) string {
	t.Helper()
	once.Do(func() {
		if once.base, once.err = os.MkdirTemp("", "packaging-"); once.err == nil {
			once.dir, once.err = build(context.Background(), once.base, here)
		}
	})
	if once.err != nil {
		t.Fatal(once.err)
	}
	return once.dir
}

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(once.base)
	os.Exit(code)
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Neither the directory, the time of day and its zone, nor the umask shows in a package.
func TestReproducible(t *testing.T) {
	first := sums(t, packages(t))
	dir, err := build(t.Context(), t.TempDir(), settings{"077", "Asia/Tokyo", "quite/another/directory"})
	if err != nil {
		t.Fatal(err)
	}
	second := sums(t, dir)
	if len(first) != 6 {
		t.Errorf("%d files, want .deb, .rpm and bill of materials of sluice and of sluice-guest", len(first))
	}
	for name, sum := range first {
		if second[name] != sum {
			t.Errorf("%s is another one when built again", name)
		}
	}
}

func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(dir + "/*")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		all[filepath.Base(file)] = hex.EncodeToString(sum[:])
	}
	return all
}

// must lists what has to be in a package, with its permissions.
var must = map[string][]string{
	"sluice": {
		"-rwxr-xr-x /usr/bin/sluice", "-rwxr-xr-x /usr/bin/sluiced",
		"-rw-r--r-- /usr/lib/systemd/system/sluice.service", "-rw-r--r-- /usr/lib/systemd/system/sluice-fleet.service",
		"-rw-r--r-- /usr/lib/systemd/system/sluice-fleet-proxy.service", "-rwxr-xr-x /usr/share/sluice/fleet/ca",
		"-rw-r--r-- /usr/share/sluice/fleet/policy.yaml",
		"-rw-r--r-- /usr/lib/sysusers.d/sluice.conf", "-rw-r--r-- /usr/lib/modules-load.d/sluice.conf",
		"-rw-r--r-- /etc/sluice/sluice.yaml", "drwxr-xr-x /etc/sluice/conf.d",
		"-rw-r--r-- /usr/share/bash-completion/completions/sluice", "-rw-r--r-- /usr/share/fish/vendor_completions.d/sluice.fish",
		"-rw-r--r-- /usr/share/man/man8/sluice.8.gz", "-rw-r--r-- /usr/share/man/man8/sluiced.8.gz",
		"-rw-r--r-- /usr/share/man/man8/sluice-explain.8.gz", "-rw-r--r-- /usr/share/man/man5/sluice.yaml.5.gz",
		"-rw-r--r-- /usr/share/man/man8/sluice-vpf-define.8.gz",
		"-rw-r--r-- /usr/share/doc/sluice/copyright", "-rw-r--r-- /usr/share/doc/sluice/sluice.yaml",
		"-rw-r--r-- /usr/share/doc/sluice/sbom.cdx.json", "-rw-r--r-- /usr/share/doc/sluice/docs/config.md",
		"-rw-r--r-- /usr/share/doc/sluice/ARCHITECTURE.md",
		"-rw-r--r-- /usr/share/doc/sluice/docs/examples/multus/pod.yaml", // linked from other pages
		"-rw-r--r-- /usr/share/doc/sluice/scenarios/three-guarantees.yaml", "-rw-r--r-- /usr/share/doc/sluice/docs/papers/daqs.yaml",
		"-rw-r--r-- /usr/share/doc/sluice/docs/runbook.md", // where the alerts say that it is
		"-rw-r--r-- /usr/share/sluice/prometheus/sluice.rules.yaml", "-rw-r--r-- /usr/share/sluice/grafana/sluice.json",
	},
	"sluice-guest": {
		"-rwxr-xr-x /usr/sbin/sluice-guest", "-rw-r--r-- /usr/lib/systemd/system/sluice-guest.service",
		"-rwxr-xr-x /usr/lib/sluice-guest/bond", "-rw-r--r-- /usr/lib/udev/rules.d/85-sluice-vf.rules",
		"-rw-r--r-- /usr/lib/systemd/system/sluice-bond@.service", "-rw-r--r-- /usr/lib/systemd/network/05-sluice-vf.network",
		"-rw-r--r-- /usr/share/doc/sluice-guest/guests.md",
		"-rw-r--r-- /usr/share/man/man8/sluice-guest.8.gz", "-rw-r--r-- /usr/share/man/man8/sluice-cni.8.gz",
		"-rw-r--r-- /usr/share/doc/sluice-guest/sbom.cdx.json",
		"lrwxrwxrwx /opt/cni/bin/sluice-cni", "-rw-r--r-- /usr/share/doc/sluice-guest/examples/multus/pod.yaml",
	},
}

func TestContentsOfDebs(t *testing.T) {
	extra := map[string][]string{
		"sluice":       {"-rw-r--r-- /usr/share/zsh/vendor-completions/_sluice"},
		"sluice-guest": {"-rwxr-xr-x /usr/lib/cni/sluice-cni"},
	}
	for name, want := range must {
		file := filepath.Join(packages(t), name+"_1.2.3-1_"+arch(t)+".deb")
		var have []string
		for line := range strings.Lines(output(t, "dpkg-deb", "-c", file)) {
			f := strings.Fields(line)
			if f[1] != "root/root" {
				t.Errorf("%s: not root's: %s", name, line)
			}
			have = append(have, mode(f[0])+" "+strings.TrimSuffix(strings.TrimPrefix(f[5], "."), "/"))
		}
		compare(t, file, have, slices.Concat(want, extra[name]))
		if name == "sluice-guest" {
			compare(t, file, have, examples(t))
		}
	}
}

// examples are all of them, as they are in a package.
func examples(t *testing.T) []string {
	t.Helper()
	var all []string
	for path := range strings.Lines(output(t, "git", "ls-files", "../docs/examples")) {
		all = append(all, "-rw-r--r-- /usr/share/doc/sluice-guest/"+strings.TrimPrefix(strings.TrimSpace(path), "../docs/"))
	}
	return all
}

func TestContentsOfRpms(t *testing.T) {
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Fatal("no rpm to look into packages with: apt-get install rpm")
	}
	extra := map[string][]string{
		"sluice":       {"-rw-r--r-- /usr/share/zsh/site-functions/_sluice"},
		"sluice-guest": {"-rwxr-xr-x /usr/libexec/cni/sluice-cni"},
	}
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch(t)]
	for name, want := range must {
		file := filepath.Join(packages(t), name+"-1.2.3-1."+machine+".rpm")
		var have []string
		for line := range strings.Lines(output(t, "rpm", "-qlvp", file)) {
			f := strings.Fields(line)
			have = append(have, mode(f[0])+" "+f[8])
		}
		compare(t, file, have, slices.Concat(want, extra[name]))
	}
}

// mode is a file's as ls shows it; nobody minds that of a symbolic link.
func mode(shown string) string { return strings.Replace(shown, "l---------", "lrwxrwxrwx", 1) }

func arch(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(output(t, "go", "env", "GOARCH"))
}

func compare(t *testing.T, file string, have, want []string) {
	t.Helper()
	for _, w := range want {
		if !slices.Contains(have, w) {
			t.Errorf("%s lacks %s", filepath.Base(file), w)
		}
	}
	open := regexp.MustCompile(`^-.......w.|^-....w`)
	for _, h := range have {
		if open.MatchString(h) {
			t.Errorf("%s: others may write %s", filepath.Base(file), h)
		}
	}
}

// What an administrator has changed in sluice.yaml stays at an upgrade.
func TestConfigurationIsTheAdministrators(t *testing.T) {
	dir := packages(t)
	if got := output(t, "dpkg-deb", "-I", filepath.Join(dir, "sluice_1.2.3-1_"+arch(t)+".deb"),
		"conffiles"); got != "/etc/libvirt/hooks/qemu.d/sluice\n/etc/sluice/sluice.yaml\n" {
		t.Errorf("conffiles: %q", got)
	}
	rpms, _ := filepath.Glob(dir + "/sluice-1.2.3*.rpm")
	if got := output(t, "rpm", "-qp", "--qf", "[%{FILENAMES} %{FILEFLAGS:fflags}\n]", rpms[0]); !strings.Contains(got,
		"/etc/sluice/sluice.yaml cn\n") {
		t.Errorf("sluice.yaml is no configuration file to rpm (config, noreplace): %s", got)
	}
}

// The program knows which version of the package it came with.
func TestVersionInThePackage(t *testing.T) {
	dir := packages(t)
	into := t.TempDir()
	output(t, "dpkg-deb", "-x", filepath.Join(dir, "sluice_1.2.3-1_"+arch(t)+".deb"), into)
	if got := output(t, into+"/usr/bin/sluiced", "--version"); !strings.Contains(got, "1.2.3") {
		t.Errorf("sluiced --version: %s", got)
	}
	// Completion works from where bash looks for it.
	out := output(t, "bash", "-c", "source "+into+"/usr/share/bash-completion/completions/sluice && complete -p sluice")
	if !strings.Contains(out, "__start_sluice") {
		t.Errorf("completion: %s", out)
	}
}

// Whatever a VM is called, its name is no flag to sluice; and what is none of Sluice's business does not even start it.
func TestHookPassesNamesOn(t *testing.T) {
	text, err := os.ReadFile("libvirt/qemu-hook")
	if err != nil {
		t.Fatal(err)
	}
	fake := filepath.Join(t.TempDir(), "sluice")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\nprintf '<%s>' \"$@\"\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	hook := strings.ReplaceAll(string(text), "/usr/bin/sluice", fake)
	for _, x := range []struct{ name, operation, want string }{
		{"--socket=/tmp/s", "migrate", "<libvirt-hook><--><--socket=/tmp/s><migrate><begin><->"},
		{"--", "migrate", "<libvirt-hook><--><--><migrate><begin><->"},
		{"--help", "start", ""},
	} {
		if got := output(t, "sh", "-c", hook, "sh", x.name, x.operation, "begin", "-"); got != x.want {
			t.Errorf("%s %s: %q, want %q", x.operation, x.name, got, x.want)
		}
	}
}

// Scripts of packages run without systemd too, where an image is made, whatever dpkg or rpm says.
func TestScriptsWithoutSystemd(t *testing.T) {
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		t.Skip("systemd runs here: the scripts would act on it; the lab's test has them")
	}
	scripts, _ := filepath.Glob("scripts/*")
	if len(scripts) != 6 {
		t.Errorf("scripts: %v", scripts)
	}
	empty := t.TempDir() // neither systemd-sysusers nor any other program
	for _, script := range scripts {
		for _, word := range []string{"configure", "upgrade", "abort-upgrade", "remove", "failed-upgrade", "0", "1", "2", ""} {
			cmd := exec.CommandContext(t.Context(), "/bin/sh", script, word)
			cmd.Env = []string{"PATH=" + empty}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s %s: %v\n%s", script, word, err, out)
			}
		}
	}
}

// The bill of materials has every module that the programs say they are made of, and no other.
func TestBillOfMaterials(t *testing.T) {
	dir := packages(t)
	for name, programs := range map[string][]string{"sluice": {"sluice", "sluiced"}, "sluice-guest": {"sluice-guest", "sluice-cni"}} {
		data, err := os.ReadFile(filepath.Join(dir, name+".cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		var bill struct {
			Format     string `json:"bomFormat"`
			Components []struct{ Name, Version, Purl string }
		}
		if err := json.Unmarshal(data, &bill); err != nil || bill.Format != "CycloneDX" {
			t.Fatalf("%s: %v, format %q", name, err, bill.Format)
		}
		want := map[string]bool{}
		for _, program := range programs {
			want[program] = true
			info, err := buildinfo.ReadFile(filepath.Join(dir, "../.cache/package", program))
			if err != nil {
				t.Fatal(err)
			}
			want["pkg:golang/std@"+strings.TrimPrefix(info.GoVersion, "go")] = true
			for _, m := range info.Deps {
				want["pkg:golang/"+m.Path+"@"+m.Version] = true
			}
		}
		if name == "sluice" {
			notice(t, want)
		}
		for _, c := range bill.Components {
			if id := cmp.Or(c.Purl, c.Name); !want[id] {
				t.Errorf("%s: the bill has %s, and no program", name, id)
			} else {
				delete(want, id)
			}
		}
		for id := range want {
			t.Errorf("%s: the bill lacks %s", name, id)
		}
	}
}

// notice adds what the page contains of others: "uPlot 1.6.32, https://...".
func notice(t *testing.T, want map[string]bool) {
	t.Helper()
	text, err := os.ReadFile("../internal/edge/page/NOTICE")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^(\S+) (\d\S*), https:`).FindAllStringSubmatch(string(text), -1) {
		want["pkg:npm/"+strings.ToLower(m[1])+"@"+m[2]] = true
	}
}

// The check for vulnerabilities says so when it could not look.
func TestVulnSaysWhetherItLooked(t *testing.T) {
	for code, want := range map[int]struct {
		code int
		text string
	}{0: {0, "no known vulnerability"}, 3: {3, "known vulnerabilities"}, 1: {4, "NOT CHECKED"}, 127: {4, "NOT CHECKED"}} {
		check := filepath.Join(t.TempDir(), "govulncheck")
		if err := os.WriteFile(check, fmt.Appendf(nil, "#!/bin/sh\nexit %d\n", code), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "../scripts/vuln", check).CombinedOutput()
		got := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			got = exit.ExitCode()
		}
		if got != want.code || !strings.Contains(string(out), want.text) {
			t.Errorf("govulncheck ends with %d: exit code %d, want %d:\n%s", code, got, want.code, out)
		}
	}
}

// The restrictions of the units are worth what docs/appendix/measurements.md says.
func TestExposure(t *testing.T) {
	if os.Getenv("SLUICE_TEST_NO_SYSTEMD") == "1" {
		t.Skip("SLUICE_TEST_NO_SYSTEMD=1")
	}
	for unit, most := range map[string]string{"sluice.service": "33", "sluice-fleet.service": "15", "sluice-fleet-proxy.service": "15", "sluice-guest.service": "20"} { // tenths
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold="+most,
			unit).CombinedOutput()
		if err != nil {
			t.Errorf("systemd-analyze security %s: %v\n%s", unit, err, out)
		}
	}
}
