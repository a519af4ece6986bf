package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// remote runs commands on the host under test, all over one connection.
type remote struct {
	key, socket string
	port        int
	close       func() // nil while not connected
}

// connect waits until sshd answers. The master connection ends with the machine, so nothing of it outlives a test that is killed.
func (r *remote) connect(ctx context.Context) error {
	return Eventually(ctx, 90*time.Second, "ssh", func() (bool, error) {
		var stderr bytes.Buffer
		master := exec.Command("ssh", r.options("-M", "-N")...)
		master.Stderr = &stderr
		if err := master.Start(); err != nil {
			return false, Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = master.Wait(); close(ended) }()
		err := Eventually(ctx, 15*time.Second, "ssh master", func() (bool, error) {
			select {
			case <-ended:
				return false, Fatal(fmt.Errorf("ssh: %s", strings.TrimSpace(stderr.String())))
			default:
			}
			err := exec.CommandContext(ctx, "ssh", r.options("-O", "check")...).Run()
			return err == nil, err
		})
		if err != nil {
			_ = master.Process.Kill()
			<-ended
			os.Remove(r.socket)
			return false, err
		}
		r.close = func() {
			_ = master.Process.Kill()
			<-ended
			os.Remove(r.socket)
		}
		return true, nil
	})
}

func (r *remote) options(args ...string) []string {
	return append([]string{
		"-F", "none", "-q", "-i", r.key, "-p", strconv.Itoa(r.port), "-S", r.socket,
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes",
		"-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=8",
	}, append(args, "root@127.0.0.1")...)
}

// command prepares a shell command; it ends with ctx.
func (r *remote) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "ssh", append(r.options(), script)...)
	cmd.WaitDelay = 2 * time.Second
	return cmd
}

// run returns the output of a script, as Output does.
func (r *remote) run(ctx context.Context, script string, stdin io.Reader) (string, error) {
	cmd := r.command(ctx, script)
	cmd.Stdin = stdin
	return Output(ctx, cmd, script)
}

// Output runs a script's command and returns its output; its error contains the command's error output.
func Output(ctx context.Context, cmd *exec.Cmd, script string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return stdout.String(), fmt.Errorf("%s: %w: %s", abbreviate(script), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

func (r *remote) put(ctx context.Context, local, path string) error {
	f, err := os.Open(local)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	// By rename: a running program cannot be overwritten.
	q := Quote(path)
	script := fmt.Sprintf("mkdir -p \"$(dirname %s)\" && cat >%s.new && chmod %o %s.new && mv %s.new %s",
		q, q, info.Mode().Perm(), q, q, q)
	_, err = r.run(ctx, script, f)
	return err
}

// Quote quotes s as one word for a shell.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func abbreviate(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 120 {
		return s[:120] + "..."
	}
	return s
}
