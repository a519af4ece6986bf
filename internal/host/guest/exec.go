package guest

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/base/sleep"
	"sluice/internal/model"
)

// The exit of a command is polled first after execFirst, then at intervals that double up to execPoll, execPolls times in all: 10 s, unless
// the context ends earlier.
const (
	execFirst = 2 * time.Millisecond
	execPoll  = 64 * time.Millisecond
	execPolls = 160
)

// run runs a command in the guest and returns its standard output.
func (c *Client) run(ctx context.Context, vm model.VMID, path string, args ...string) (string, error) {
	var started struct {
		PID int64 `json:"pid"`
	}
	cmd := map[string]any{"path": path, "arg": args, "capture-output": true}
	if err := c.do(ctx, vm, "guest-exec", cmd, &started); err != nil {
		return "", err
	}
	wait := execFirst
	for range execPolls {
		var st struct {
			Exited   bool   `json:"exited"`
			ExitCode int    `json:"exitcode"`
			Out      []byte `json:"out-data"`
		}
		if err := c.do(ctx, vm, "guest-exec-status", map[string]any{"pid": started.PID}, &st); err != nil {
			return "", err
		}
		if st.Exited && st.ExitCode != 0 {
			return "", fmt.Errorf("%s in the guest: exit code %d", path, st.ExitCode)
		}
		if st.Exited {
			return string(st.Out), nil
		}
		if err := sleep.For(ctx, wait); err != nil {
			return "", err
		}
		wait = min(2*wait, execPoll)
	}
	return "", bad("%s has not ended in time", path)
}
