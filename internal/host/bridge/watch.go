package bridge

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/base/sleep"
	"sluice/internal/host/sysif"
)

// resubscribeAfter is the pause between attempts to subscribe again.
const resubscribeAfter = time.Second

// Watch notifies of changes to links, static FDB entries and unicast filters. Several changes may be one notification; the reader
// must find out what changed. The channel is closed when ctx ends.
func (h *Bridges) Watch(ctx context.Context) (<-chan struct{}, error) {
	l, err := subscribe()
	if err != nil {
		return nil, sysif.Fail("watch", "links", err)
	}
	w := watcher{changed: make(chan struct{}, 1), log: h.k.Log}
	go w.run(ctx, l)
	return w.changed, nil
}

func subscribe() (*rtnl.Listener, error) {
	return rtnl.Listen(unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH)
}

type watcher struct {
	changed chan struct{} // holds at most one notification
	log     *slog.Logger
}

func (w watcher) run(ctx context.Context, l *rtnl.Listener) {
	defer close(w.changed)
	for l != nil {
		err := w.listen(ctx, l)
		_ = l.Close()
		if ctx.Err() != nil {
			return
		}
		w.log.Warn("kernel notifications ended, subscribing again", "error", err)
		l = w.again(ctx)
		w.tell() // changes may have been missed
	}
}

// listen notifies of changes until the socket fails, loses messages or ctx ends. A socket that lost some is replaced: until it
// has been drained, the kernel drops more without reporting it.
func (w watcher) listen(ctx context.Context, l *rtnl.Listener) error {
	for {
		msgs, err := l.Receive(ctx)
		switch {
		case err != nil:
			return err
		case slices.ContainsFunc(msgs, relevant):
			w.tell()
		}
	}
}

// again subscribes again; it returns nil if ctx ends first.
func (w watcher) again(ctx context.Context) *rtnl.Listener {
	for {
		if l, err := subscribe(); err == nil {
			return l
		}
		if sleep.For(ctx, resubscribeAfter) != nil {
			return nil
		}
	}
}

func (w watcher) tell() {
	select {
	case w.changed <- struct{}{}:
	default: // one is pending already
	}
}

// relevant reports whether a notification concerns a link, a static entry or a filter. Learned and resolved addresses change all
// the time, and nothing here depends on them.
func relevant(m rtnl.Message) bool {
	switch m.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return true
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		f, ok := decodeFDB(m)
		return ok && (f.pinned() || f.filter())
	}
	return false
}
