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

// GuestAgent talks to a lab's own second qemu-ga in a guest. It needs neither the guest's network nor the agent channel that the
// software under test uses: a test may break both and still inspect the guest.
type GuestAgent struct {
	VM    string
	Dial  func(context.Context) (io.ReadWriteCloser, error) // the connection outlives the call; it may be closed twice
	Shell string
	Env   []string

	mu   sync.Mutex // one request at a time
	conn io.ReadWriteCloser
	in   *bufio.Reader
}

// connect makes a connection that is in step with the agent: what precedes the answer to this ID was meant for an earlier client.
func (a *GuestAgent) connect() error {
	id := time.Now().UnixNano() / 1000 % 1e12
	if err := a.send("guest-sync", map[string]any{"id": id}); err != nil {
		return err
	}
	for {
		line, err := a.in.ReadBytes('\n')
		if err != nil {
			return err
		}
		var reply struct{ Return json.Number }
		if json.Unmarshal(line, &reply) == nil && reply.Return.String() == fmt.Sprint(id) {
			return nil
		}
	}
}

func (a *GuestAgent) send(command string, args any) error {
	request := map[string]any{"execute": command}
	if args != nil {
		request["arguments"] = args
	}
	return json.NewEncoder(a.conn).Encode(request)
}

// Close closes the connection; the next command makes another.
func (a *GuestAgent) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop()
}

func (a *GuestAgent) drop() {
	if a.conn != nil {
		a.conn.Close()
		a.conn = nil
	}
}

// do executes one command. It does not reuse a connection that has failed.
func (a *GuestAgent) do(ctx context.Context, command string, args, out any) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	defer func() {
		var refused *agentError
		if err == nil || errors.As(err, &refused) {
			return
		}
		a.drop()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		err = fmt.Errorf("%s: the lab's agent: %s: %w", a.VM, command, err)
	}()
	fresh := a.conn == nil
	if fresh {
		if a.conn, err = a.Dial(ctx); err != nil {
			a.conn = nil
			return err
		}
		a.in = bufio.NewReaderSize(a.conn, 1<<16)
	}
	conn := a.conn
	stop := context.AfterFunc(ctx, func() { conn.Close() }) // ends reads and writes that hang
	defer func() {
		if !stop() {
			a.drop()
		}
	}()
	if fresh {
		if err := a.connect(); err != nil {
			return err
		}
	}
	if err := a.send(command, args); err != nil {
		return err
	}
	line, err := a.in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var reply struct {
		Return json.RawMessage
		Error  *struct{ Desc string }
	}
	if err := json.Unmarshal(line, &reply); err != nil {
		return err
	}
	if reply.Error != nil {
		return &agentError{a.VM, command, reply.Error.Desc}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(reply.Return, out)
}

type agentError struct{ vm, command, text string }

func (e *agentError) Error() string { return e.vm + ": " + e.command + ": " + e.text }

// Exec runs a shell command in the guest.
func (a *GuestAgent) Exec(ctx context.Context, script string) (string, error) {
	var started struct{ Pid int }
	err := a.do(ctx, "guest-exec", map[string]any{
		"path":           a.Shell,
		"arg":            []string{"-c", script},
		"env":            a.Env,
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
	err = Eventually(ctx, 5*time.Minute, a.VM+": "+abbreviate(script), func() (bool, error) {
		err := a.do(ctx, "guest-exec-status", map[string]any{"pid": started.Pid}, &status)
		var refused *agentError
		if errors.As(err, &refused) {
			return false, Fatal(err)
		}
		return status.Exited, err
	})
	if err != nil {
		return "", err
	}
	stdout, _ := base64.StdEncoding.DecodeString(status.Out)
	if status.Exitcode != 0 || status.Signal != 0 {
		stderr, _ := base64.StdEncoding.DecodeString(status.Err)
		return string(stdout), fmt.Errorf("%s: %s: exit code %d, signal %d: %s", a.VM, abbreviate(script),
			status.Exitcode, status.Signal, strings.TrimSpace(string(stderr)))
	}
	return string(stdout), nil
}

// pipe is a process whose input and output are a connection.
type pipe struct {
	io.Reader
	io.Writer
	cmd  *exec.Cmd
	once sync.Once
}

func startPipe(cmd *exec.Cmd) (*pipe, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &pipe{Reader: out, Writer: in, cmd: cmd}, cmd.Start()
}

// Close kills the process.
func (p *pipe) Close() error {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return nil
}
