package cni

import (
	"context"
	"errors"

	"github.com/containernetworking/cni/pkg/types"

	"sluice/internal/channel"
)

// Client sends requests to the host through sluice-guest, on a new connection for each request.
type Client struct {
	Path string // path of sluice-guest's socket
}

// Attach implements Host.
func (c *Client) Attach(ctx context.Context, a channel.Attach) (out channel.Attached, err error) {
	err = c.with(ctx, func(conn *channel.Client) error { return conn.Call(ctx, channel.MethodAttach, a, &out) })
	return out, err
}

// Detach implements Host.
func (c *Client) Detach(ctx context.Context, d channel.Detach) error {
	return c.with(ctx, func(conn *channel.Client) error { return conn.Call(ctx, channel.MethodDetach, d, nil) })
}

// List implements Host.
func (c *Client) List(ctx context.Context) (out []channel.Held, err error) {
	err = c.with(ctx, func(conn *channel.Client) error {
		out, err = conn.List(ctx)
		return err
	})
	return out, err
}

// with calls ask on a new connection. Any failure other than a refusal by the host may be temporary.
func (c *Client) with(ctx context.Context, ask func(*channel.Client) error) error {
	conn, err := channel.Dial(ctx, c.Path)
	if err == nil {
		defer conn.Close()
		err = ask(conn)
	}
	var refused *channel.Error
	if err == nil || errors.As(err, &refused) {
		return err
	}
	return types.NewError(types.ErrTryAgainLater, err.Error(), "")
}
