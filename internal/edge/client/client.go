package client

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
	"strconv"
	"syscall"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
)

// ErrUnreachable means that no daemon answered. All other errors of the Client are the daemon's answers.
var ErrUnreachable = errors.New("no daemon answers")

// Client talks to a daemon over its unix socket. It is safe for concurrent use.
type Client struct {
	socket string
	http   *http.Client
}

// maxAnswer bounds an answer: 10,000 VMs take about 5 MB.
const maxAnswer = 64 << 20

// timeout is the longest wait for an answer, longer than the daemon's own limits.
const timeout = 40 * time.Second

// New returns a client for the daemon at that socket. It does not connect yet.
func New(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, http: &http.Client{
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
		Timeout:   timeout,
	}}
}

// Status returns the summary.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return get[api.Status](ctx, c, "status")
}

// VMs returns the VMs, sorted by name.
func (c *Client) VMs(ctx context.Context) ([]api.VM, error) { return get[[]api.VM](ctx, c, "vms") }

// VFs returns the VFs, sorted by PF and index.
func (c *Client) VFs(ctx context.Context) ([]api.VF, error) { return get[[]api.VF](ctx, c, "vfs") }

// Capacity returns what the host can still guarantee.
func (c *Client) Capacity(ctx context.Context) (api.HostCapacity, error) {
	return get[api.HostCapacity](ctx, c, "capacity")
}

// Plan returns the moves under way and pending.
func (c *Client) Plan(ctx context.Context) (api.Plan, error) { return get[api.Plan](ctx, c, "plan") }

// Bandwidth returns what each link and NIC is promised, allowed and sends.
func (c *Client) Bandwidth(ctx context.Context) (api.Bandwidth, error) {
	return get[api.Bandwidth](ctx, c, "bandwidth")
}

// SLAs returns the SLA in force for each NIC.
func (c *Client) SLAs(ctx context.Context) ([]api.NICSLA, error) {
	return get[[]api.NICSLA](ctx, c, "sla")
}

// VirtualPFs lists the virtual PFs of all VMs.
func (c *Client) VirtualPFs(ctx context.Context) ([]api.VirtualPF, error) {
	return get[[]api.VirtualPF](ctx, c, "vpf")
}

// DefineVPF gives a VM that is shut off a virtual PF.
func (c *Client) DefineVPF(ctx context.Context, b api.DefineVPF) (api.VirtualPF, error) {
	return post[api.VirtualPF](ctx, c, "vpf/define", b)
}

// UndefineVPF removes a virtual PF.
func (c *Client) UndefineVPF(ctx context.Context, b api.UndefineVPF) (api.Result, error) {
	return post[api.Result](ctx, c, "vpf/undefine", b)
}

// SetVPF changes the policies that the embedded switch enforces on virtual VFs.
func (c *Client) SetVPF(ctx context.Context, b api.SetVPF) (api.Result, error) {
	return post[api.Result](ctx, c, "vpf/set", b)
}

// Prepare changes the definition of a VM so that it can have a VF, or only reports the changes, for one VM or all.
func (c *Client) Prepare(ctx context.Context, b api.Prepare) ([]api.Prepared, error) {
	return post[[]api.Prepared](ctx, c, "prepare", b)
}

// Incoming requests VFs for a VM that migrates in.
func (c *Client) Incoming(ctx context.Context, b api.Incoming) ([]api.IncomingVF, error) {
	return post[[]api.IncomingVF](ctx, c, "incoming", b)
}

// Fsck returns what is leaked or misconfigured.
func (c *Client) Fsck(ctx context.Context) (api.Fsck, error) { return get[api.Fsck](ctx, c, "fsck") }

// Doctor returns the problems found.
func (c *Client) Doctor(ctx context.Context) (api.Doctor, error) {
	return get[api.Doctor](ctx, c, "doctor")
}

// Explain returns the explanation for one VM, by name or UUID.
func (c *Client) Explain(ctx context.Context, vm string) (api.Explanation, error) {
	return get[api.Explanation](ctx, c, "explain/"+url.PathEscape(vm))
}

// History returns the last hour of the host, or of one VM.
func (c *Client) History(ctx context.Context, q answer.HistoryQuery) (api.History, error) {
	v := url.Values{"vm": {q.VM}}
	if !q.From.IsZero() {
		v.Set("from", q.From.Format(time.RFC3339Nano))
	}
	return get[api.History](ctx, c, "history?"+v.Encode())
}

// Happened returns what has happened on the host, or to one VM.
func (c *Client) Happened(ctx context.Context, q answer.EventsQuery) (api.Events, error) {
	v := url.Values{"vm": {q.VM}, "after": {strconv.FormatUint(q.After, 10)}, "last": {strconv.Itoa(q.Last)}}
	for key, t := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !t.IsZero() {
			v.Set(key, t.Format(time.RFC3339Nano))
		}
	}
	return get[api.Events](ctx, c, "events?"+v.Encode())
}

// WhatIf returns what other policies would have achieved in the last hour. Running is set while that is being computed.
func (c *Client) WhatIf(ctx context.Context) (api.WhatIf, error) {
	return get[api.WhatIf](ctx, c, "whatif")
}

// LastSeen returns the daemon's last Snapshot with its rules and ended moves, and the Snapshots before it that were taken after a time;
// the daemon keeps the last few. None if the time is zero.
func (c *Client) LastSeen(ctx context.Context, after time.Time) (answer.Recent, error) {
	v := url.Values{}
	if !after.IsZero() {
		v.Set("since", after.Format(time.RFC3339Nano))
	}
	return get[answer.Recent](ctx, c, "snapshot?"+v.Encode())
}

// Memory returns the state of the daemon's loop.
func (c *Client) Memory(ctx context.Context) (answer.Memory, error) {
	return get[answer.Memory](ctx, c, "memory")
}

// Overrides returns what users requested at run time.
func (c *Client) Overrides(ctx context.Context) ([]api.Override, error) {
	return get[[]api.Override](ctx, c, "overrides")
}

// Raw returns the answer to GET /v1/PATH as it is.
func (c *Client) Raw(ctx context.Context, path string) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, path)
}

// After waits until the daemon's revision differs from that one, for little more than half a minute at most. It returns the
// current revision, which may be the same.
func (c *Client) After(ctx context.Context, revision uint64) (uint64, error) {
	s, err := get[api.Status](ctx, c, fmt.Sprintf("status?after=%d&wait=%s", revision, api.MaxWait))
	if errors.Is(err, errSame) {
		return revision, nil
	}
	return s.Revision, err
}

// errSame means that the wait expired without a new revision.
var errSame = errors.New("nothing new")

// SetClaims says all that the fleet has claimed on the host.
func (c *Client) SetClaims(ctx context.Context, claims []api.HostClaim) (api.Result, error) {
	data, err := json.Marshal(api.SetClaims{Claims: claims})
	if err != nil {
		return api.Result{}, err
	}
	return fetch[api.Result](ctx, c, http.MethodPut, "claims", data)
}

// Do requests a change.
func (c *Client) Do(ctx context.Context, verb api.Verb, r api.Request) (api.Result, error) {
	return post[api.Result](ctx, c, verb.Path(), r)
}

func post[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	data, err := json.Marshal(body)
	if err != nil {
		var none T
		return none, err
	}
	return fetch[T](ctx, c, http.MethodPost, path, data)
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return fetch[T](ctx, c, http.MethodGet, path, nil)
}

// firstLook is how long the Client waits for a daemon that has just started and has not observed the host yet.
const firstLook = 3 * time.Second

// fetch retries until there is an answer, or the daemon's first observation of the host takes too long.
func fetch[T any](ctx context.Context, c *Client, method, path string, body []byte) (T, error) {
	for begun := time.Now(); ; {
		out, early, err := fetchOnce[T](ctx, c, method, path, body)
		if !early || time.Since(begun) > firstLook {
			return out, err
		}
		select {
		case <-ctx.Done():
			return out, err
		case <-time.After(firstLook / 10):
		}
	}
}

// fetchOnce sends one request; early means that the daemon has not observed the host yet.
func fetchOnce[T any](ctx context.Context, c *Client, method, path string, body []byte) (out T, early bool, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://sluice/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return out, false, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return out, false, c.unreachable(err)
	}
	defer resp.Body.Close() // the answer is read completely or discarded
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return out, false, c.unreachable(err)
	case resp.StatusCode == http.StatusNotModified:
		return out, false, errSame
	case resp.StatusCode != http.StatusOK:
		early = resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != ""
		return out, early, refusal(resp.StatusCode, data)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, false, fmt.Errorf("cannot parse the daemon's answer to %s (is it a different version?): %w", path, err)
	}
	return out, false, nil
}

// refusal returns the daemon's error.
func refusal(status int, data []byte) error {
	var r api.Error
	if json.Unmarshal(data, &r) != nil || r.Text == "" {
		return fmt.Errorf("the daemon answered with status %d", status)
	}
	return &r
}

// unreachable says why no daemon answered and what to do.
func (c *Client) unreachable(err error) error {
	if info, e := os.Stat(c.socket); e == nil && info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("%w at %s: it is not a socket; name the daemon's with --socket", ErrUnreachable, c.socket)
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
