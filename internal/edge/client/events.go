package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// errEnded means that the daemon ended the stream.
var errEnded = errors.New("the stream has ended")

// Events calls tell with every revision that the daemon sends, starting with the current one, until tell fails, ctx ends or
// the stream does. It returns the reason.
func (c *Client) Events(ctx context.Context, tell func(revision uint64) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://sluice/v1/events", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	endless := *c.http
	endless.Timeout = 0
	resp, err := endless.Do(req)
	if err != nil {
		return c.unreachable(err)
	}
	defer resp.Body.Close() // closing ends the stream
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the daemon answered with status %d", resp.StatusCode)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		text, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fmt.Errorf("the daemon sent an invalid revision %q", text)
		}
		if err := tell(n); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return c.unreachable(err)
	}
	return c.unreachable(errEnded)
}
