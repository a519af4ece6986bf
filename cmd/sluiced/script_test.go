package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/host/libvirt/libvirttest"
	"sluice/internal/tests/testkit"
)

// programs is the directory of the built programs.
var programs string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(withPrograms(m))
}

func withPrograms(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sluice")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs = dir
	cmd := exec.Command("go", "build", "-o", dir, "../sluice", ".") //nolint:gosec // a directory of ours
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// The installed programs, on hosts of libvirt's test driver, in a network namespace of their own.
func TestScripts(t *testing.T) {
	if os.Getenv("SLUICE_TEST_NO_ROOT") == "1" {
		t.Skip("SLUICE_TEST_NO_ROOT=1: the daemon needs root")
	}
	d := libvirttest.Start(t)
	runScripts(t, "testdata/script", d, d.TestDriverURI())
}

// The same on a separate libvirtd, which stops and comes back.
func TestOnLibvirtd(t *testing.T) {
	d := libvirttest.Start(t)
	d.Create(t, libvirttest.VM{Name: "vm1", Ports: 1, NICs: []string{libvirttest.NIC("52:54:00:00:01:01", "ua-net0", true)}})
	runScripts(t, "testdata/libvirtd", d, d.URI())
}

// Preparing the definitions of VMs for VFs on a separate libvirtd.
func TestPrepare(t *testing.T) {
	d := libvirttest.Start(t)
	d.Create(t, libvirttest.VM{Name: "vm1", Ports: 1, NICs: []string{libvirttest.NIC("52:54:00:00:01:01", "ua-net0", true)}})
	runScripts(t, "testdata/prepare", d, d.URI())
}

func runScripts(t *testing.T, dir string, d *libvirttest.Daemon, uri string) {
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", programs+":"+e.Getenv("PATH"))
			e.Setenv("URI", uri)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"config":     writeConfig,
			"signal":     sendSignal,
			"eventually": eventually,
			"atwork":     atWork,
			"exit":       wantExit,
			"libvirtd": func(_ *testscript.TestScript, _ bool, args []string) {
				switch args[0] {
				case "kill":
					d.Kill(t)
				case "start":
					d.Start(t)
				}
			},
		},
		Deadline: time.Now().Add(testkit.Time(30 * time.Second)),
	})
}

// writeConfig is `config [LINE...]`: it writes sluice.yaml with these additional lines.
func writeConfig(ts *testscript.TestScript, _ bool, lines []string) {
	dir := ts.Getenv("WORK")
	text := fmt.Sprintf("libvirt: {uri: %q}\nstate_dir: %s\napi: {socket: %s/s.sock, group: \"\"}\n%s\n", ts.Getenv("URI"), dir, dir,
		strings.Join(lines, "\n"))
	ts.Check(os.WriteFile(ts.MkAbs("sluice.yaml"), []byte(text), 0o600))
}

// sendSignal is `signal NAME`: it sends a signal to the program started last in the background.
func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	sig := map[string]os.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT}[args[0]]
	all := ts.BackgroundCmds()
	ts.Check(all[len(all)-1].Process.Signal(sig))
}

// atWork waits until the program started last in the background has used more CPU time than any start takes.
func atWork(ts *testscript.TestScript, _ bool, _ []string) {
	const enough = 30 // ticks of 10 ms
	all := ts.BackgroundCmds()
	path := fmt.Sprintf("/proc/%d/stat", all[len(all)-1].Process.Pid)
	for end := time.Now().Add(testkit.Time(10 * time.Second)); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		text, err := os.ReadFile(path)
		ts.Check(err)
		_, after, _ := strings.Cut(string(text), ") ")
		if f := strings.Fields(after); len(f) > 11 {
			if n, err := strconv.Atoi(f[11]); err == nil && n >= enough { // utime
				return
			}
		}
	}
	ts.Fatalf("it does nothing: %s", path)
}

// eventually is `eventually TEXT PROGRAM ARGS...`: it waits until the program's output contains the text, or with ! no
// longer does.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	for end := time.Now().Add(testkit.Time(3 * time.Second)); ; time.Sleep(50 * time.Millisecond) {
		cmd := exec.Command(filepath.Join(programs, args[1]), args[2:]...) //nolint:gosec // one of ours
		cmd.Dir = ts.Getenv("WORK")
		out, _ := cmd.CombinedOutput() // only its output matters
		if strings.Contains(string(out), args[0]) != neg {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("no %q in what %s says at last:\n%s", args[0], strings.Join(args[1:], " "), out)
		}
	}
}

// wantExit is `exit CODE PROGRAM ARGS...`.
func wantExit(ts *testscript.TestScript, _ bool, args []string) {
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}
