// Package kerneltest gives tests their own network, and ports to send and receive frames at. It needs root and a kernel with
// bridges, taps and veths.
package kerneltest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/internal/tests/testkit"
)

const childEnv = "SLUICE_TEST_IN_NETNS"

// Main is a TestMain that runs all tests of the package in a new network and mount namespace, so that all goroutines are in it
// and /sys shows it. The namespaces end with the process.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for callers that need to do something before or after the tests. It returns the exit code.
func Run(m *testing.M) int {
	if os.Getenv(childEnv) == "" && !fuzzing() {
		return again()
	}
	if os.Getenv(childEnv) != "" {
		if err := enter(); err != nil {
			fmt.Fprintln(os.Stderr, "kerneltest:", err)
			return 1
		}
	}
	return m.Run()
}

// fuzzing reports whether this is a coordinator or worker of the fuzzer. These communicate over inherited descriptors, and fuzz
// only decoders.
func fuzzing() bool {
	return slices.ContainsFunc(os.Args, func(a string) bool {
		return strings.HasPrefix(a, "-test.fuzz=") || strings.HasPrefix(a, "-test.fuzzworker")
	})
}

// again runs this test binary in the new namespaces and returns its exit code.
func again() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS,
		Pdeathsig:  unix.SIGKILL,
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1)
	}
	fmt.Fprintln(os.Stderr, "kerneltest: cannot make namespaces (run as root):", err)
	return 1
}

// StartAgain starts this test binary with an environment variable by which its TestMain does something else, and waits until it
// prints a line. The caller kills the process; the end of the test does if nobody else has.
func StartAgain(t testing.TB, env, value, line string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), env+"="+value)
	out, err := cmd.StdoutPipe()
	Must(t, err)
	Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if said, err := bufio.NewReader(out).ReadString('\n'); said != line+"\n" {
		t.Fatalf("the other process says %q, %v; want %q", said, err, line)
	}
	return cmd
}

// enter remounts /sys for the new network namespace.
func enter() error {
	if err := testkit.PrivateMounts(); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount sysfs: %w", err)
	}
	return nil
}
