package docs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/internal/daemon"
	"sluice/internal/inside/sluiceguest"
)

// checks are of programs whose command lines can be checked without a real host.
var checks = map[string]func(t *testing.T, args []string) error{
	"sluice":       checkSluice,
	"sluiced":      checkDaemon,
	"sluice-guest": checkGuest,
	"make":         checkMake,
	"go":           checkGo,
	"promtool":     checkPromtool,
	"virsh":        checkVirsh,
	"systemctl":    checkSystemctl,
	"curl":         checkCurl,
	"ssh":          checkSSH,
}

// elsewhere lists programs whose commands are neither run nor checked, except for the files that they name, with the reason.
var elsewhere = map[string]string{
	"install":          "writes to the system's directories",
	"tee":              "writes to the system's directories",
	"systemd-sysusers": "changes the system's users",
	"modprobe":         "loads modules into the kernel of the machine that tests",
	"ip":               "changes or shows interfaces of a real host",
	"bridge":           "shows bridges of a real host",
	"vdpa":             "needs a NIC with vDPA",
	"devlink":          "changes the mode of a real NIC",
	"echo":             "makes VFs of a real NIC",
	"dmesg":            "shows the kernel's log of a guest",
	"cat":              "shows a file of a real host",
	"crictl":           "needs a container runtime",
	"cnitool":          "needs a container runtime",
	"apt-get":          "changes the packages of the machine that tests",
	"apt":              "changes the packages of the machine that tests",
	"dnf":              "changes the packages of another distribution",
	"jq":               "picks from what the command before it prints, and is not among the packages that tests need",
	"journalctl":       "needs the journal of a real host",
	"kubectl":          "needs a cluster",
	"sed":              "changes a manifest before kubectl applies it",
	"openssl":          "makes a key; package openstack runs the same",

	"/usr/share/sluice/fleet/ca": "signs a certificate; package openstack runs it",
}

func isProgram(word string) bool {
	return word == "sudo" || word == "for" || strings.HasPrefix(word, "scripts/") || strings.HasPrefix(word, "bin/") || checks[word] != nil ||
		elsewhere[word] != ""
}

// checkProgram returns what is wrong with a command line.
func checkProgram(t *testing.T, args []string) error {
	t.Helper()
	if err := checkPaths(t, args); err != nil {
		return err
	}
	name := strings.TrimPrefix(args[0], "bin/")
	switch check := checks[name]; {
	case check != nil:
		return check(t, args[1:])
	case elsewhere[name] != "" || strings.HasPrefix(name, "scripts/"):
		return nil
	}
	return fmt.Errorf("nobody has said how to check %q: add it to checks, or to elsewhere with a reason", name)
}

var (
	installed  = regexp.MustCompile(`^/(usr|etc|lib|opt)/\S*sluice[^\s*]*$`)
	repository = regexp.MustCompile(`^(\./)?(packaging|docs|scenarios|scripts|lab|internal|cmd)/[^\s*]*$`)
	contents   = regexp.MustCompile(`(?m)^ *- \{(?:src: \S+, )?dst: ([^,}]+)`)
)

// made lists files that commands or users create, in addition to what packages install.
var made = []string{"/etc/bash_completion.d/sluice", "/etc/sluice/conf.d/", "/etc/systemd/system/sluice"}

// checkPaths requires files of the repository, and those that packages install, to exist.
func checkPaths(t *testing.T, args []string) error {
	t.Helper()
	for _, arg := range args {
		_, value, _ := strings.Cut(arg, "=")
		for _, path := range []string{arg, value} {
			switch {
			case installed.MatchString(path):
				if !slices.ContainsFunc(packaged(t), func(p string) bool {
					return path == p || strings.HasSuffix(p, "/") && strings.HasPrefix(path, p)
				}) {
					return fmt.Errorf("no package installs %s", path)
				}
			case repository.MatchString(path):
				if _, err := os.Stat(filepath.Join(root, strings.TrimSuffix(path, "/..."))); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// packaged returns what the packages install.
func packaged(t *testing.T) []string {
	t.Helper()
	all := slices.Clone(made)
	for _, name := range []string{"sluice", "sluice-guest"} {
		data, err := os.ReadFile(filepath.Join(root, "packaging", "nfpm-"+name+".yaml")) //nolint:gosec // a file of the repository
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range contents.FindAllStringSubmatch(string(data), -1) {
			all = append(all, m[1])
		}
	}
	if len(all) < 10 {
		t.Fatal("found no list of what packages install")
	}
	return all
}

// checkDaemon makes sluiced parse its flags; sluiced then only prints its version.
func checkDaemon(t *testing.T, args []string) error {
	t.Helper()
	var out bytes.Buffer
	if code := daemon.Main(t.Context(), append(slices.Clone(args), "--version"), io.Discard, &out, "1.2.3"); code != 0 {
		return fmt.Errorf("sluiced: %s", &out)
	}
	return nil
}

// checkGuest makes sluice-guest parse its flags, and looks up the command in its usage text.
func checkGuest(t *testing.T, args []string) error {
	t.Helper()
	var help, out bytes.Buffer
	sluiceguest.Main(t.Context(), []string{"--help"}, io.Discard, &help, "1.2.3")
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		if !strings.Contains(help.String(), "\n  "+args[0]+" ") {
			return fmt.Errorf("sluice-guest has no command %q", args[0])
		}
		args = args[1:]
	}
	if code := sluiceguest.Main(t.Context(), append(slices.Clone(args), "--version"), io.Discard, &out, "1.2.3"); code != 0 {
		return fmt.Errorf("sluice-guest: %s", &out)
	}
	return nil
}

func checkMake(t *testing.T, args []string) error {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "Makefile")) //nolint:gosec // a file of the repository
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range args {
		if !strings.Contains(target, "=") && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(target)+`:`).Match(data) {
			return fmt.Errorf("the Makefile has no target %q", target)
		}
	}
	return nil
}

// checkGo requires the package of `go test` to exist, with a test that -run matches.
func checkGo(t *testing.T, args []string) error {
	t.Helper()
	if args[0] != "test" {
		return fmt.Errorf("go %s: only go test is checked", args[0])
	}
	dir := args[slices.IndexFunc(args, func(s string) bool { return strings.HasPrefix(s, "./") })]
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("%s has no tests", dir)
	}
	i := slices.IndexFunc(args, func(s string) bool { return s == "-run" || s == "-bench" })
	if i < 0 {
		return nil
	}
	of := regexp.MustCompile(`(?m)^func (?:Test|Benchmark|)\w*` + strings.Trim(args[i+1], "^$") + `\w*\(`)
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && of.Match(data) { //nolint:gosec // a file of the repository
			return nil
		}
	}
	return fmt.Errorf("%s has no test %s", dir, args[i+1])
}

// checkPromtool runs promtool on the repository's copy of the file that the package installs.
func checkPromtool(t *testing.T, args []string) error {
	t.Helper()
	if os.Getenv("SLUICE_TEST_NO_PROMTOOL") == "1" {
		return nil
	}
	args = slices.Clone(args)
	for i, a := range args {
		args[i] = strings.Replace(a, "/usr/share/sluice/prometheus/", filepath.Join(root, "packaging/prometheus")+"/", 1)
	}
	return run(t.Context(), "promtool", args...)
}

// checkVirsh asks the real virsh whether it has the command and its options.
func checkVirsh(t *testing.T, args []string) error {
	t.Helper()
	help, err := exec.CommandContext(t.Context(), "virsh", "help", args[0]).CombinedOutput() //nolint:gosec // of the documentation
	if err != nil {
		return fmt.Errorf("virsh %s: %w: %s", args[0], err, help)
	}
	for _, a := range args[1:] {
		if strings.HasPrefix(a, "--") && !bytes.Contains(help, []byte(a)) {
			return fmt.Errorf("virsh %s has no option %s", args[0], a)
		}
	}
	return nil
}

// checkSystemctl knows the units on a host or in a guest.
func checkSystemctl(_ *testing.T, args []string) error {
	verbs := []string{"status", "start", "stop", "restart", "reload", "enable", "disable", "daemon-reload", "edit", "show", "is-active"}
	units := []string{
		"sluice", "sluice.service", "sluice-fleet", "sluice-fleet-proxy", "sluice-guest", "sluice-bond@*", "virtual-vfs", "libvirtd", "virtqemud", "qemu-guest-agent",
		"grafana-server", "prometheus",
	}
	if !slices.Contains(verbs, args[0]) {
		return fmt.Errorf("systemctl %s is not known", args[0])
	}
	for _, a := range args[1:] {
		if !strings.HasPrefix(a, "-") && !strings.Contains(a, "=") && !slices.Contains(units, a) && a != "NRestarts" {
			return fmt.Errorf("systemctl %s: no unit %q", args[0], a)
		}
	}
	return nil
}

// checkCurl sends the request for the daemon's socket to the demo.
func checkCurl(t *testing.T, args []string) error {
	t.Helper()
	url := args[len(args)-1]
	path, ok := strings.CutPrefix(url, "http://sluice")
	if i := slices.Index(args, "--unix-socket"); !ok || i < 0 || args[i+1] != "/run/sluice/sluice.sock" {
		return fmt.Errorf("curl %s: only requests to the daemon's socket are checked", strings.Join(args, " "))
	}
	_, err := get(t.Context(), simulated(t).socket, path)
	return err
}

// checkSSH checks the command for the other host.
func checkSSH(t *testing.T, args []string) error {
	t.Helper()
	i := slices.Index(args, "sluice")
	if i < 0 {
		return errors.New("ssh without sluice is not checked")
	}
	return checkSluice(t, args[i+1:])
}

func run(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil { //nolint:gosec // of the documentation
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
