package bridge

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/sysif"
)

// resubscribeAfter is the pause between attempts to subscribe again.
const resubscribeAfter = time.Second

// Watch tells of changes to links and static bridge entries. Several changes make one
// message; the reader looks for itself what changed. The channel is closed when ctx ends.
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
	changed chan struct{} // holds one message at most
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
		w.tell() // whatever happened meanwhile
	}
}

// listen tells of changes until the socket fails, loses some or ctx ends. One that lost some
// is of no use until it has been read empty: the kernel drops more meanwhile and does not say so.
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

// again subscribes anew, nil when ctx ends first.
func (w watcher) again(ctx context.Context) *rtnl.Listener {
	for {
		if l, err := subscribe(); err == nil {
			return l
		}
		select {
		case <-time.After(resubscribeAfter):
		case <-ctx.Done():
			return nil
		}
	}
}

func (w watcher) tell() {
	select {
	case w.changed <- struct{}{}:
	default: // one is waiting already
	}
}

// relevant says whether a notification is about a link or a static entry. What bridges
// learn and what hosts resolve changes all the time, and nobody here looks at it.
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
