package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"sluice/api/v1"
	"sluice/internal/edge/history"
)

// Limits of the process that computes what other policies would have done: it gets only idle time of one CPU.
const (
	whatIfNice   = 19
	whatIfMemory = "GOMEMLIMIT=200MiB"
	whatIfCPUs   = "GOMAXPROCS=1"
)

// computeWhatIf runs `sluice` to compute what other policies would have done, as the simulator is not part of the daemon.
func computeWhatIf(ctx context.Context, past *history.Past) ([]api.PolicyResult, error) {
	path, err := findSluice()
	if err != nil {
		return nil, err
	}
	in, err := json.Marshal(past)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, "whatif", "--compute") //nolint:gosec // path comes from findSluice
	var out, text bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &text
	cmd.Env = []string{whatIfMemory, whatIfCPUs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	switch err := runHumbly(cmd); {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%s whatif --compute: %w: %s", path, err, strings.TrimSpace(text.String()))
	}
	var list []api.PolicyResult
	if err := json.Unmarshal(out.Bytes(), &list); err != nil {
		return nil, fmt.Errorf("what %s whatif --compute printed: %w; install sluice and sluiced of the same version", path, err)
	}
	return list, nil
}

// findSluice returns the path of sluice: beside this program, as both are installed, or in PATH.
func findSluice() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), "sluice")); err == nil {
		return path, nil
	}
	path, err := exec.LookPath("sluice")
	if err != nil {
		return "", &api.Error{
			Text:   "the program sluice, which works out what other policies would have done, is neither in " + filepath.Dir(self) + " nor in PATH",
			Remedy: "install it beside sluiced",
		}
	}
	return path, nil
}

// runHumbly runs a command at the lowest priority and without the daemon's capabilities. Both are attributes of a thread, and a
// child inherits those of the thread that starts it. The goroutine never unlocks that thread, so the thread ends with the
// goroutine; it must live until then, since the child is killed when it ends.
func runHumbly(cmd *exec.Cmd) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread does not end with its goroutine, and /proc shows its attributes as the daemon's. While it is locked
			// here, another goroutine runs on another thread.
			done <- runHumbly(cmd)
			runtime.UnlockOSThread()
			return
		}
		if err := dropPrivileges(); err != nil {
			done <- err
			return
		}
		done <- cmd.Run()
	}()
	return <-done
}

func dropPrivileges() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return errors.Join(
		os.NewSyscallError("setpriority", unix.Setpriority(unix.PRIO_PROCESS, 0, whatIfNice)),
		os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)),
		os.NewSyscallError("capset", unix.Capset(&header, &none[0])),
	)
}
