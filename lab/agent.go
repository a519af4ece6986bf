package lab

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// agent talks to the lab's own second qemu-ga in a guest over vsock. It needs neither the guest's network nor the agent channel that
// the software under test uses: a test may break both and still inspect the guest.
type agent struct {
	vm   string
	ssh  *remote
	mu   sync.Mutex
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  chan []byte // lines; closed when the connection is gone
	next int
}

func (a *agent) connect(ctx context.Context) error {
	cid := "10" + strings.TrimPrefix(a.vm, "vm")
	// The connection outlives the call that makes it.
	cmd := a.ssh.command(context.WithoutCancel(ctx), "socat - VSOCK-CONNECT:"+cid+":1024")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	a.cmd, a.in, a.out = cmd, in, make(chan []byte, 16)
	go func(lines chan []byte) {
		defer close(lines)
		r := bufio.NewReaderSize(out, 1<<16)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}(a.out)
	// Everything before the answer to this ID was meant for an earlier client.
	a.next++
	id := time.Now().UnixNano()/1000%1e12 + int64(a.next)
	if err := a.send("guest-sync", map[string]any{"id": id}); err != nil {
		return err
	}
	for {
		line, err := a.line(ctx)
		if err != nil {
			return err
		}
		var reply struct{ Return json.Number }
		if json.Unmarshal(line, &reply) == nil && reply.Return.String() == fmt.Sprint(id) {
			return nil
		}
	}
}

func (a *agent) send(command string, args any) error {
	request := map[string]any{"execute": command}
	if args != nil {
		request["arguments"] = args
	}
	return json.NewEncoder(a.in).Encode(request)
}

func (a *agent) line(ctx context.Context) ([]byte, error) {
	select {
	case line, ok := <-a.out:
		if !ok {
			return nil, fmt.Errorf("%s: the lab's agent hung up", a.vm)
		}
		return line, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: the lab's agent: %w", a.vm, ctx.Err())
	}
}

func (a *agent) drop() {
	if a.cmd == nil {
		return
	}
	_ = a.cmd.Process.Kill()
	for range a.out { // the reader must not block on a full channel
	}
	_ = a.cmd.Wait()
	a.cmd = nil
}

// do executes one command. It does not reuse a connection that has failed.
func (a *agent) do(ctx context.Context, command string, args, out any) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	defer func() {
		var refused *agentError
		if err != nil && !errors.As(err, &refused) {
			a.drop()
		}
	}()
	if a.cmd == nil {
		if err := a.connect(ctx); err != nil {
			return err
		}
	}
	if err := a.send(command, args); err != nil {
		return fmt.Errorf("%s: %s: %w", a.vm, command, err)
	}
	line, err := a.line(ctx)
	if err != nil {
		return err
	}
	var reply struct {
		Return json.RawMessage
		Error  *struct{ Desc string }
	}
	if err := json.Unmarshal(line, &reply); err != nil {
		return fmt.Errorf("%s: %s: %w", a.vm, command, err)
	}
	if reply.Error != nil {
		return &agentError{a.vm, command, reply.Error.Desc}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(reply.Return, out)
}

type agentError struct{ vm, command, text string }

func (e *agentError) Error() string { return e.vm + ": " + e.command + ": " + e.text }

// exec runs a shell command in the guest.
func (a *agent) exec(ctx context.Context, script string) (string, error) {
	var started struct{ Pid int }
	err := a.do(ctx, "guest-exec", map[string]any{
		"path":           "/bin/sh",
		"arg":            []string{"-c", script},
		"env":            []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"},
		"capture-output": true,
	}, &started)
	if err != nil {
		return "", err
	}
	var status struct {
		Exited   bool
		Exitcode int
		Signal   int
		Out      string `json:"out-data"`
		Err      string `json:"err-data"`
	}
	err = wait(ctx, 2*time.Minute, a.vm+": "+abbreviate(script), func() (bool, error) {
		err := a.do(ctx, "guest-exec-status", map[string]any{"pid": started.Pid}, &status)
		var refused *agentError
		if errors.As(err, &refused) {
			return false, fatal(err)
		}
		return status.Exited, err
	})
	if err != nil {
		return "", err
	}
	stdout, _ := base64.StdEncoding.DecodeString(status.Out)
	if status.Exitcode != 0 || status.Signal != 0 {
		stderr, _ := base64.StdEncoding.DecodeString(status.Err)
		return string(stdout), fmt.Errorf("%s: %s: exit code %d, signal %d: %s", a.vm, abbreviate(script),
			status.Exitcode, status.Signal, strings.TrimSpace(string(stderr)))
	}
	return string(stdout), nil
}
