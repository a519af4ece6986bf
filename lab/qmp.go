package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"
)

// qmp talks to QEMU's monitor.
type qmp struct {
	conn net.Conn
	dec  *json.Decoder
}

func dialQMP(ctx context.Context, path string) (*qmp, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	m := &qmp{conn: conn, dec: json.NewDecoder(conn)}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	var greeting json.RawMessage
	if err := m.dec.Decode(&greeting); err != nil {
		conn.Close()
		return nil, fmt.Errorf("qemu monitor greeting: %w", err)
	}
	if err := m.do(ctx, "qmp_capabilities", nil, nil); err != nil {
		conn.Close()
		return nil, err
	}
	return m, nil
}

// do executes a command and decodes what it returns into out, if not nil.
func (m *qmp) do(ctx context.Context, command string, args, out any) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(30 * time.Second)
	}
	_ = m.conn.SetDeadline(deadline)
	request := map[string]any{"execute": command}
	if args != nil {
		request["arguments"] = args
	}
	if err := json.NewEncoder(m.conn).Encode(request); err != nil {
		return fmt.Errorf("qemu monitor %s: %w", command, err)
	}
	for {
		var reply struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
			Event  string
		}
		if err := m.dec.Decode(&reply); err != nil {
			return fmt.Errorf("qemu monitor %s: %w", command, err)
		}
		switch {
		case reply.Event != "":
		case reply.Error != nil:
			return fmt.Errorf("qemu monitor %s: %s", command, reply.Error.Desc)
		case out != nil:
			return json.Unmarshal(reply.Return, out)
		default:
			return nil
		}
	}
}

func (m *qmp) status(ctx context.Context) (string, error) {
	var s struct{ Status string }
	err := m.do(ctx, "query-status", nil, &s)
	return s.Status, err
}

// save writes the stopped machine's state to a file.
func (m *qmp) save(ctx context.Context, path string) error {
	if err := m.do(ctx, "stop", nil, nil); err != nil {
		return err
	}
	// The default bandwidth is meant for a network.
	if err := m.do(ctx, "migrate-set-parameters", map[string]any{"max-bandwidth": int64(1) << 40}, nil); err != nil {
		return err
	}
	if err := m.do(ctx, "migrate", map[string]any{"uri": "file:" + path}, nil); err != nil {
		return err
	}
	return Eventually(ctx, 2*time.Minute, "saving the machine", func() (bool, error) {
		var s struct {
			Status string
			Error  string `json:"error-desc"`
		}
		if err := m.do(ctx, "query-migrate", nil, &s); err != nil {
			return false, err
		}
		if s.Status == "failed" {
			return false, Fatal(fmt.Errorf("saving the machine: %s", s.Error))
		}
		return s.Status == "completed", nil
	})
}

func (m *qmp) close() { m.conn.Close() }
