package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/edge/cli"
)

// TestMain makes the test binary usable as the daemon, its client and a test helper.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"sluiced": func() {
			if dir := os.Getenv("TEST_RUN_DIR"); dir != "" {
				runDir = dir
			}
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			os.Exit(Main(ctx, os.Args[1:], os.Stdout, os.Stderr, "1.2.3"))
		},
		"sluice": func() {
			os.Exit(cli.Main(context.Background(), os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr},
				cli.Deps{Version: "1.2.3"}))
		},
		"taps": tapsMain,
	})
}

// TestScripts tests the daemon as a process: its locks, its files, its end. There is no libvirt, so it never takes a Snapshot.
func TestScripts(t *testing.T) {
	if os.Getenv("SLUICE_TEST_NO_ROOT") == "1" {
		t.Skip("SLUICE_TEST_NO_ROOT=1: the daemon needs root")
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("TEST_RUN_DIR", filepath.Join(e.WorkDir, "run"))
			for _, name := range []string{"a", "b"} {
				text := fmt.Sprintf("libvirt: {uri: \"qemu+unix:///system?socket=%[1]s/none\"}\nstate_dir: %[1]s/state-%[2]s\napi: {socket: %[1]s/%[2]s.sock, group: \"\"}\n", e.WorkDir, name)
				if err := os.WriteFile(filepath.Join(e.WorkDir, name+".yaml"), []byte(text), 0o600); err != nil {
					return err
				}
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await": await, "fifo": fifo, "size": size, "signal": sendSignal,
		},
		Deadline: time.Now().Add(3 * time.Minute),
	})
}

// await implements `await COMMAND...`: it repeats the command until it succeeds.
func await(ts *testscript.TestScript, _ bool, args []string) {
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = ts.Exec(args[0], args[1:]...); err == nil {
			return
		}
	}
	ts.Fatalf("%v never succeeded: %v", args, err)
}

// fifo implements `fifo PATH`: it replaces a file by a FIFO.
func fifo(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	ts.Check(errors.Join(os.RemoveAll(path), syscall.Mkfifo(path, 0o600)))
}

// size implements `size PATH MIB`: it creates a file of that size.
func size(ts *testscript.TestScript, _ bool, args []string) {
	var mib int64
	_, err := fmt.Sscan(args[1], &mib)
	ts.Check(err)
	path := ts.MkAbs(args[0])
	ts.Check(os.RemoveAll(path))
	f, err := os.Create(path)
	ts.Check(err)
	ts.Check(errors.Join(f.Truncate(mib<<20), f.Close()))
}

// sendSignal implements `signal NAME FILE`: it signals the process whose ID is in the lock file.
func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	var pid int
	_, err := fmt.Sscanf(ts.ReadFile(args[1]), "pid %d", &pid)
	ts.Check(err)
	ts.Check(syscall.Kill(pid, map[string]syscall.Signal{"HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM}[args[0]]))
}
