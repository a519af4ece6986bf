package vpflab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sluice/lab"
)

// Proc is a program that runs on the host. What it prints goes to the file Log in the lab's ArtifactDir.
type Proc struct {
	Log string

	host *Host
	pid  string // file on the host that has its process number
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts a program on the host and returns at once; name is for its log. It runs until it
// ends, is stopped, or the lab is closed; ctx bounds the start only.
func (h *Host) Start(ctx context.Context, name, command string) (*Proc, error) {
	name = fmt.Sprintf("%03d-%s", h.serial.Add(1), name)
	p := &Proc{
		Log:  filepath.Join(h.ArtifactDir, name+".log"),
		host: h,
		pid:  "/run/" + name + ".pid",
		done: make(chan struct{}),
	}
	log, err := os.Create(p.Log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// A session of its own, so that a signal reaches all that it starts.
	p.cmd = h.Command(context.WithoutCancel(ctx), "exec setsid -w bash -c "+quote("echo $$ >"+p.pid+"; exec "+command))
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, lab.Eventually(ctx, 30*time.Second, name, func() (bool, error) {
		_, err := os.Stat(h.Path(p.pid))
		return err == nil || !p.Running(), nil
	})
}

// Output is what the program has printed so far.
func (p *Proc) Output() (string, error) {
	data, err := os.ReadFile(p.Log)
	return string(data), err
}

// AwaitOutput waits until the program has printed text.
func (p *Proc) AwaitOutput(ctx context.Context, limit time.Duration, text string) error {
	return lab.Eventually(ctx, limit, fmt.Sprintf("%q in %s", text, p.Log), func() (bool, error) {
		running := p.Running()
		out, err := p.Output()
		if err == nil && strings.Contains(out, text) {
			return true, nil
		}
		if !running {
			return false, lab.Fatal(fmt.Errorf("%s: ended without printing %q: %s", p.Log, text, out))
		}
		return false, err
	})
}

// Running tells whether the program has not ended yet.
func (p *Proc) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Wait waits for the program's end and returns how it ended: nil for exit code 0, else an *exec.ExitError.
func (p *Proc) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Signal sends a signal, such as TERM or KILL, to the program and all its children.
func (p *Proc) Signal(ctx context.Context, signal string) error {
	_, err := p.host.Run(ctx, fmt.Sprintf("kill -%s -- -$(cat %s)", signal, p.pid))
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

// Stop asks the program to end, and waits until it has; ending by the signal itself is no error.
func (p *Proc) Stop(ctx context.Context) error {
	if err := p.Signal(ctx, "TERM"); err != nil && p.Running() {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := p.Wait(ctx)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 143 {
		return nil
	}
	return err
}
