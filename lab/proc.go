package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Shell runs shell commands on a host.
type Shell interface {
	// Command prepares a command that its caller starts; it ends with ctx.
	Command(ctx context.Context, script string) *exec.Cmd
	// Run returns a command's output.
	Run(ctx context.Context, script string) (string, error)
}

// Proc is a program that runs on a host. Its output goes to the file Log.
type Proc struct {
	Log string

	host Shell
	pid  string // file on the host that names its process group
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9]+`)

// Start starts a shell command on the host and returns at once. It runs until
// it ends, is stopped, or the lab is closed; ctx bounds the start only.
func (h *Host) Start(ctx context.Context, command string) (*Proc, error) {
	words := unfit.ReplaceAllString(command, "-")
	return h.start(ctx, fmt.Sprintf("%03d-%s.log", h.serial.Add(1), strings.Trim(words[:min(len(words), 40)], "-")), command)
}

func (h *Host) start(ctx context.Context, name, command string) (*Proc, error) {
	return StartProc(ctx, h, filepath.Join(h.ArtifactDir, name), "/run/lab/"+name+".pid", command)
}

// Command prepares a shell command on the host; it ends with ctx.
func (h *Host) Command(ctx context.Context, script string) *exec.Cmd {
	return h.ssh.command(ctx, script)
}

// StartProc starts a shell command and returns at once. Its process group is written to the file pid on the host. It runs until
// it ends, is stopped, or the host is gone; ctx bounds the start only.
func StartProc(ctx context.Context, on Shell, logFile, pid, command string) (*Proc, error) {
	p := &Proc{Log: logFile, host: on, pid: pid, done: make(chan struct{})}
	log, err := os.Create(p.Log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// A session of its own, so that a signal reaches all its descendants.
	script := fmt.Sprintf("exec setsid -w bash -c %s", Quote(fmt.Sprintf("echo $$ >%s; %s", Quote(p.pid), command)))
	p.cmd = on.Command(context.WithoutCancel(ctx), script)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, ctx.Err()
}

// Output returns what the program has printed so far.
func (p *Proc) Output() (string, error) {
	data, err := os.ReadFile(p.Log)
	return string(data), err
}

// AwaitOutput waits until the program has printed text.
func (p *Proc) AwaitOutput(ctx context.Context, limit time.Duration, text string) error {
	return Eventually(ctx, limit, fmt.Sprintf("%q in %s", text, p.Log), func() (bool, error) {
		running := p.Running() // first, so that the last output counts too
		out, err := p.Output()
		if err == nil && strings.Contains(out, text) {
			return true, nil
		}
		if !running {
			return false, Fatal(fmt.Errorf("%s: ended without printing %q: %s", p.Log, text, out))
		}
		return false, err
	})
}

// Running reports whether the program is still running.
func (p *Proc) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Wait waits until the program ends and returns how it ended: nil for exit code 0, else an *exec.ExitError.
func (p *Proc) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Signal sends a signal, such as TERM, HUP or KILL, to the program and all its children.
func (p *Proc) Signal(ctx context.Context, signal string) error {
	// A program that was just started may not have written its PID yet.
	_, err := p.host.Run(ctx, fmt.Sprintf("f=%s; for ((i = 0; i < 100; i++)); do [ -s $f ] && break; sleep 0.1; done; "+
		"kill -%s -- -$(cat $f)", Quote(p.pid), signal))
	return err
}

// Kill ends the program by SIGKILL and waits until it is gone.
func (p *Proc) Kill(ctx context.Context) error {
	if err := p.Signal(ctx, "KILL"); err != nil && p.Running() {
		return err
	}
	var exit *exec.ExitError
	if err := p.Wait(ctx); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// Stop asks the program to end, and kills it after ten seconds. It returns how the program ended; ending by the signal itself is not an
// error.
func (p *Proc) Stop(ctx context.Context) error {
	if !p.Running() {
		return p.err
	}
	if err := p.Signal(ctx, "TERM"); err != nil && p.Running() {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.Signal(ctx, "KILL")
		select {
		case <-p.done:
		case <-time.After(10 * time.Second):
			return fmt.Errorf("%s: does not die", p.Log)
		}
		return fmt.Errorf("%s: ignored TERM and was killed", p.Log)
	case <-ctx.Done():
		return ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(p.err, &exit) && (exit.ExitCode() == 143 || exit.ExitCode() == 255) {
		return nil
	}
	return p.err
}
