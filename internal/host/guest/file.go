package guest

import (
	"context"
	"errors"
	"time"

	"sluice/internal/model"
)

// procNetDev holds the counters of all interfaces of a Linux guest.
const procNetDev = "/proc/net/dev"

// chunk is the number of bytes read from a file at a time. Base64 adds a third, well below the bound of an answer.
const chunk = 48 << 10

// interfaces asks the agent for its list of interfaces.
func (c *Client) interfaces(ctx context.Context, vm model.VMID) (list, error) {
	var l list
	if err := c.do(ctx, vm, "guest-network-get-interfaces", nil, &l); err != nil {
		return nil, err
	}
	return l.check()
}

// complete adds the counters that the agent's list lacks.
func (c *Client) complete(ctx context.Context, vm model.VMID, l list) error {
	text, err := c.readFile(ctx, vm, procNetDev)
	if err != nil && c.Exec && ctx.Err() == nil && !errors.Is(err, model.ErrGuest) {
		text, err = c.run(ctx, vm, "cat", procNetDev)
	}
	if err != nil {
		return err
	}
	by, err := parseProc(text)
	if err != nil {
		return err
	}
	l.fill(by)
	return nil
}

// readFile reads a small file of the guest through the agent's file commands.
func (c *Client) readFile(ctx context.Context, vm model.VMID, path string) (string, error) {
	var handle int64
	if err := c.do(ctx, vm, "guest-file-open", map[string]any{"path": path, "mode": "r"}, &handle); err != nil {
		return "", err
	}
	text, err := c.readAll(ctx, vm, handle)
	// Close even if reading timed out: the agent keeps handles forever.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	var nothing struct{}
	if cerr := c.do(closing, vm, "guest-file-close", map[string]any{"handle": handle}, &nothing); err == nil && cerr != nil {
		err = cerr
	}
	return text, err
}

// closeLimit bounds the time to close a file after the caller's own time is up.
const closeLimit = 500 * time.Millisecond

func (c *Client) readAll(ctx context.Context, vm model.VMID, handle int64) (string, error) {
	var text []byte
	for range maxReads {
		var got struct {
			Count int    `json:"count"`
			Data  []byte `json:"buf-b64"`
			EOF   bool   `json:"eof"`
		}
		if err := c.do(ctx, vm, "guest-file-read", map[string]any{"handle": handle, "count": chunk}, &got); err != nil {
			return "", err
		}
		if got.Count != len(got.Data) || len(got.Data) > chunk {
			return "", bad("guest-file-read says %d bytes and gives %d", got.Count, len(got.Data))
		}
		text = append(text, got.Data...)
		if len(text) > maxProc {
			return "", bad("a file of more than %d bytes", maxProc)
		}
		if got.EOF || got.Count == 0 {
			return string(text), nil
		}
	}
	return "", bad("no end of file after %d reads", maxReads)
}

// maxReads bounds the number of answers from a guest that returns a file in very small pieces.
const maxReads = 16
