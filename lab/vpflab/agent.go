package vpflab

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"sluice/lab"
)

// agent talks to the lab's own qemu-ga in a guest over a separate virtio-serial port. It works whatever the state of the guest's
// network and of the agent that the software under test uses.
type agent struct {
	vm, socket string

	mu   sync.Mutex // one request at a time
	conn net.Conn
	in   *bufio.Reader
}

func (a *agent) connect(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", a.socket)
	if err != nil {
		return err
	}
	a.conn, a.in = conn, bufio.NewReaderSize(conn, 1<<16)
	// Everything before the answer to this ID was meant for an earlier client.
	id := time.Now().UnixNano() / 1000 % 1e12
	if err := a.send(ctx, "guest-sync", map[string]any{"id": id}); err != nil {
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

func (a *agent) send(ctx context.Context, command string, args any) error {
	request := map[string]any{"execute": command}
	if args != nil {
		request["arguments"] = args
	}
	deadline, _ := ctx.Deadline()
	if err := a.conn.SetDeadline(deadline); err != nil {
		return err
	}
	return json.NewEncoder(a.conn).Encode(request)
}

func (a *agent) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop()
}

func (a *agent) drop() {
	if a.conn != nil {
		a.conn.Close()
		a.conn = nil
	}
}

type agentError struct{ text string }

func (e *agentError) Error() string { return e.text }

// do executes one command. It does not reuse a connection that has failed.
func (a *agent) do(ctx context.Context, command string, args, out any) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
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
			err = fmt.Errorf("%s: the lab's agent: %s: %w", a.vm, command, err)
		}
	}()
	if a.conn == nil {
		if err := a.connect(ctx); err != nil {
			return err
		}
	}
	if err := a.send(ctx, command, args); err != nil {
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
		return &agentError{fmt.Sprintf("%s: %s: %s", a.vm, command, reply.Error.Desc)}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(reply.Return, out)
}

// exec runs a shell command in the guest.
func (a *agent) exec(ctx context.Context, script string) (string, error) {
	var started struct{ Pid int }
	err := a.do(ctx, "guest-exec", map[string]any{
		"path":           "/bin/bash",
		"arg":            []string{"-c", script},
		"env":            []string{"PATH=" + Share + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8"},
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
	err = lab.Eventually(ctx, 5*time.Minute, a.vm+": "+abbreviate(script), func() (bool, error) {
		err := a.do(ctx, "guest-exec-status", map[string]any{"pid": started.Pid}, &status)
		var refused *agentError
		if errors.As(err, &refused) {
			return false, lab.Fatal(err)
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
