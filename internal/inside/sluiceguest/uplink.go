package sluiceguest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"sluice/internal/base/sleep"
	"sluice/internal/channel"
)

// uplink maintains the connection to the daemon.
type uplink struct {
	open     func() (port, error)
	hello    channel.Hello
	counters func(ctx context.Context) (channel.Counters, error) // nil: never send any
	again    time.Duration                                       // interval between hellos
	log      *slog.Logger

	mu      sync.Mutex
	client  *channel.Client // nil: no daemon has answered
	welcome channel.Welcome
	why     string // why client is nil
}

const (
	lookEvery = 500 * time.Millisecond // to poll for a connected host: poll(2) does not report that one connects
	helloFor  = 2 * time.Second        // for the first hello, which may have been lost
	againIn   = 11 * time.Second       // not a multiple of likely counter intervals
)

// run opens the port, and reopens it after failures, until ctx ends.
func (u *uplink) run(ctx context.Context) {
	var p pauses
	for ctx.Err() == nil {
		conn, err := u.open()
		if err == nil {
			p = pauses{}
			err = u.use(ctx, conn)
			_ = conn.Close()
		}
		if ctx.Err() == nil {
			u.lost(err.Error())
			_ = sleep.For(ctx, p.next()) // the loop checks ctx
		}
	}
}

// use runs one session after the other over an open port, until the port fails. The port stays open between sessions, since each
// opening is an event for libvirt.
func (u *uplink) use(ctx context.Context, conn port) error {
	for {
		if err := u.await(ctx, conn); err != nil {
			return err
		}
		if err := u.session(ctx, conn); !errors.Is(err, io.EOF) {
			return err
		}
		u.lost("Sluice on the host has closed the channel")
		if sleep.For(ctx, firstPause) != nil {
			return ctx.Err()
		}
	}
}

// await waits until the host has opened the other end.
func (u *uplink) await(ctx context.Context, conn port) error {
	for {
		if there, err := conn.connected(); there || err != nil {
			return err
		}
		u.lost("Sluice on the host does not have the channel open: check there that it runs (systemctl status sluice)")
		if sleep.For(ctx, lookEvery) != nil {
			return ctx.Err()
		}
	}
}

// session says hello and repeats it at intervals, since the daemon may have been replaced unnoticed or may want other counters. In
// between it sends counters, until the connection ends.
func (u *uplink) session(ctx context.Context, conn port) error {
	c := channel.NewClient(conn)
	defer u.set(nil, channel.Welcome{})
	for limit := helloFor; ; {
		w, err := u.greet(ctx, c, limit)
		pause := u.again
		if err == nil {
			u.set(c, w)
			limit = localLimits.Handle // the daemon may be busy with another request of this guest
		} else {
			u.set(nil, channel.Welcome{})
			u.lost("Sluice on the host does not answer: " + err.Error())
			limit, pause = helloFor, firstPause
		}
		if err := u.report(ctx, c, w.Counters, pause); err != nil {
			return err
		}
	}
}

func (u *uplink) greet(ctx context.Context, c *channel.Client, limit time.Duration) (w channel.Welcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = c.Call(ctx, channel.MethodHello, u.hello, &w)
	return w, err
}

// report sends counters at an interval in seconds (0: none) for a while. An error means that the session has ended.
func (u *uplink) report(ctx context.Context, c *channel.Client, seconds int, while time.Duration) error {
	var tick <-chan time.Time
	if seconds > 0 && u.counters != nil {
		t := time.NewTicker(time.Duration(min(seconds, 3600)) * time.Second)
		defer t.Stop()
		tick = t.C
	}
	for over := time.After(while); ; {
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), c.Close())
		case <-c.Done():
			return c.Err()
		case <-over:
			return nil
		case <-tick:
			all, err := u.counters(ctx)
			if err == nil {
				err = c.Send(channel.MethodCounters, all)
			}
			if err != nil {
				u.log.Warn("the counters were not sent", "error", err)
			}
		}
	}
}

// set records the connection to the daemon, nil for none, and its answer.
func (u *uplink) set(c *channel.Client, w channel.Welcome) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c != nil && (u.client == nil || u.welcome != w) {
		u.why = ""
		u.log.Info("connected to Sluice on the host", "version", w.Program, "counters", time.Duration(w.Counters)*time.Second)
	}
	u.client, u.welcome = c, w
}

// lost records why there is no daemon, and logs the reason when it changes.
func (u *uplink) lost(why string) {
	u.mu.Lock()
	news := u.why != why
	u.why = why
	u.mu.Unlock()
	if news {
		u.log.Warn(why)
	}
}

// daemon returns the connection to the daemon and its latest answer to hello, or an *Error that says why there is none.
func (u *uplink) daemon() (*channel.Client, channel.Welcome, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.client == nil {
		return nil, channel.Welcome{}, &channel.Error{
			Code: channel.CodeNoDaemon,
			Text: fmt.Sprintf("no connection to Sluice on the host: %s", cmp.Or(u.why, "it has not answered yet")),
		}
	}
	return u.client, u.welcome, nil
}
