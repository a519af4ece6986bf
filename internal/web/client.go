package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"
)

// ErrUnreachable marks that no daemon answered. Everything else the Client returns is
// what a daemon said.
var ErrUnreachable = errors.New("no daemon answers")

// Client asks a daemon over its unix socket. It is safe for use by several goroutines.
type Client struct {
	socket string
	http   *http.Client
}

// maxAnswer bounds an answer: 10,000 VMs take about 5 MB.
const maxAnswer = 64 << 20

// clientTimeout is the longest wait for an answer; commands take less at the daemon.
const clientTimeout = commandTimeout + 5*time.Second

// NewClient makes a client for the daemon behind that socket. It does not connect yet.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, http: &http.Client{
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
		Timeout:   clientTimeout,
	}}
}

// Status asks for the summary.
func (c *Client) Status(ctx context.Context) (Status, error) { return get[Status](ctx, c, "status") }

// VMs asks for the VMs, in order of name.
func (c *Client) VMs(ctx context.Context) ([]VM, error) { return get[[]VM](ctx, c, "vms") }

// VFs asks for the VFs, in order of PF and index.
func (c *Client) VFs(ctx context.Context) ([]VF, error) { return get[[]VF](ctx, c, "vfs") }

// Plan asks what is under way and what comes next.
func (c *Client) Plan(ctx context.Context) (Plan, error) { return get[Plan](ctx, c, "plan") }

// Fsck asks what is leaked or wrongly set.
func (c *Client) Fsck(ctx context.Context) (Fsck, error) { return get[Fsck](ctx, c, "fsck") }

// Doctor asks what stands in the way.
func (c *Client) Doctor(ctx context.Context) (Doctor, error) { return get[Doctor](ctx, c, "doctor") }

// Explain asks about one VM, by name or UUID.
func (c *Client) Explain(ctx context.Context, vm string) (Explanation, error) {
	return get[Explanation](ctx, c, "explain/"+url.PathEscape(vm))
}

// Do asks for a change. vm is a name or UUID, "" for verbs that need none.
func (c *Client) Do(ctx context.Context, verb Verb, vm string) (Result, error) {
	path := string(verb)
	if verb == VerbRepair {
		path = "fsck/repair"
	}
	body, err := json.Marshal(ask{VM: vm})
	if err != nil {
		return Result{}, err
	}
	return fetch[Result](ctx, c, http.MethodPost, path, body)
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return fetch[T](ctx, c, http.MethodGet, path, nil)
}

func fetch[T any](ctx context.Context, c *Client, method, path string, body []byte) (T, error) {
	var answer T
	req, err := http.NewRequestWithContext(ctx, method, "http://sluice/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer, c.unreachable(err)
	}
	defer resp.Body.Close() // nothing is lost
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer, c.unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		return answer, refusal(resp.StatusCode, data)
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return answer, fmt.Errorf("the daemon's answer to %s makes no sense (is it another version?): %w", path, err)
	}
	return answer, nil
}

// refusal is what the daemon said was wrong.
func refusal(status int, data []byte) error {
	var r Refusal
	if json.Unmarshal(data, &r) != nil || r.Text == "" {
		return fmt.Errorf("the daemon answered with status %d", status)
	}
	return &r
}

// unreachable says why no daemon answered and what to do.
func (c *Client) unreachable(err error) error {
	if info, e := os.Stat(c.socket); e == nil && info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("%w at %s: it is no socket; name the daemon's with --socket", ErrUnreachable, c.socket)
	}
	remedy := "see its log: journalctl -u sluice"
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
		remedy = "start it (systemctl start sluice) or name its socket with --socket"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		remedy = "run this as root or as a member of the group sluice"
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("%w at %s: %w; %s", ErrUnreachable, c.socket, err, remedy)
}
