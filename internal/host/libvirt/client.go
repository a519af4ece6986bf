package libvirt

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lv "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"

	"sluice/internal/model"
)

// client is a connection to libvirt's daemon. Calls in flight fail when it is closed.
type client struct {
	*lv.Libvirt
	conn *watched
}

// dial connects and opens the driver. It waits until the daemon answers or ctx ends.
func dial(ctx context.Context, a address) (*client, error) {
	path := a.socket()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, unreachable(err)
	}
	w := &watched{Conn: conn, gone: make(chan struct{}), ready: make(chan struct{})}
	defer w.release()
	defer context.AfterFunc(ctx, w.end)()
	c := &client{Libvirt: lv.NewWithDialer(dialers.NewAlreadyConnected(w)), conn: w}
	if err := c.ConnectToURI(lv.ConnectURI(a.name)); err != nil {
		err = c.explain(err)
		w.end()
		return nil, err
	}
	return c, nil
}

// leaveLimit bounds libvirtd's answer to ConnectClose.
const leaveLimit = time.Second

// closeAfter closes the connection when ctx ends. It calls ConnectClose because libvirtd logs an error for each connection that ends
// without it.
func (c *client) closeAfter(ctx context.Context) {
	select {
	case <-c.conn.gone:
		return
	case <-ctx.Done():
	}
	defer c.conn.end()
	defer time.AfterFunc(leaveLimit, c.conn.end).Stop()
	_ = c.ConnectClose()
}

// unreachable converts a failure to connect to a libvirt error, so that rules can match it.
func unreachable(err error) error {
	code := lv.ErrSystemError
	if errors.Is(err, fs.ErrPermission) {
		code = lv.ErrAccessDenied
	}
	return lv.Error{Code: uint32(code), Message: "Failed to connect socket: " + err.Error()}
}

func (c *client) alive() bool {
	select {
	case <-c.conn.gone:
		return false
	default:
		return true
	}
}

// explain converts an error caused by the end of the connection to a libvirt error. Errors of calls that were answered pass unchanged.
func (c *client) explain(err error) error {
	var e lv.Error
	switch {
	case errors.Is(err, lv.ErrUnsupported):
		return lv.Error{Code: uint32(lv.ErrNoSupport), Message: "this libvirtd is too old for the call"}
	case err == nil || c.alive() || errors.As(err, &e):
		return err
	}
	return lv.Error{Code: uint32(lv.ErrRPC), Message: "the connection was lost: " + err.Error()}
}

// watched is a connection that signals its end. go-libvirt signals it too, but is not safe against a connection that ends just after it was
// opened: go-libvirt may learn of the end only once it is ready.
type watched struct {
	net.Conn
	asked atomic.Bool // go-libvirt waits for an answer

	once  sync.Once
	gone  chan struct{} // closed when the connection has ended
	free  sync.Once
	ready chan struct{} // closed when go-libvirt has connected, or failed to
}

// end closes the connection.
func (w *watched) end() {
	w.once.Do(func() {
		close(w.gone)
		_ = w.Conn.Close()
	})
}

func (w *watched) release() { w.free.Do(func() { close(w.ready) }) }

// Close is called by go-libvirt when it fails to connect.
func (w *watched) Close() error {
	w.release()
	w.end()
	return nil
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err == nil {
		w.asked.Store(false)
		return n, nil
	}
	w.end()
	if !w.asked.Load() {
		select {
		case <-w.ready:
		case <-time.After(leaveLimit): // the daemon sent only part of an answer
		}
	}
	return n, err
}

func (w *watched) Write(b []byte) (int, error) {
	w.asked.Store(true)
	n, err := w.Conn.Write(b)
	if err != nil {
		w.end()
	}
	return n, err
}

// handle returns a domain handle for libvirt's calls. The daemon finds the domain by its UUID alone; the name only appears in its messages.
func handle(vm model.VMID) (lv.Domain, error) {
	d := lv.Domain{Name: string(vm), ID: -1}
	id, err := hex.DecodeString(strings.ReplaceAll(string(vm), "-", ""))
	if err != nil || len(id) != len(d.UUID) {
		return d, fmt.Errorf("%w: %q is not a UUID", model.ErrPermanent, vm)
	}
	copy(d.UUID[:], id)
	return d, nil
}

// vmID returns a domain's UUID in its usual form.
func vmID(d lv.Domain) model.VMID {
	u := d.UUID
	return model.VMID(fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16]))
}
