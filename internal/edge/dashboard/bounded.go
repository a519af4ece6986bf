package dashboard

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxConnections bounds the connections of a Server. A browser opens six, and one per open page for events.
const maxConnections = 64

// writeTimeout is how long a client may leave sent data unread.
const writeTimeout = 30 * time.Second

// bounded limits the connections to maxConnections. Any user of the host can connect, so a new connection replaces the
// oldest unauthenticated one.
type bounded struct {
	net.Listener

	mu   sync.Mutex
	open []*conn // oldest first
}

// conn is a connection of a bounded listener.
type conn struct {
	net.Conn
	from  *bounded
	known atomic.Bool // its browser is authenticated
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		one := &conn{Conn: c, from: b}
		gone := b.add(one)
		if gone == nil {
			return one, nil
		}
		_ = gone.Conn.Close()
		if gone != one {
			return one, nil
		}
	}
}

// add adds a connection and returns the one to be closed for it: c itself if all others are authenticated, nil if there is
// room.
func (b *bounded) add(c *conn) (gone *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.open) >= maxConnections {
		i := slices.IndexFunc(b.open, func(o *conn) bool { return !o.known.Load() })
		if i < 0 {
			return c
		}
		gone = b.open[i]
		b.open = slices.Delete(b.open, i, i+1)
	}
	b.open = append(b.open, c)
	return gone
}

// Write fails if the client does not read for too long.
func (c *conn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Close closes the connection and frees its slot.
func (c *conn) Close() error {
	c.from.mu.Lock()
	c.from.open = slices.DeleteFunc(c.from.open, func(o *conn) bool { return o == c })
	c.from.mu.Unlock()
	return c.Conn.Close()
}

type connKey struct{}

// withConn is an http.Server's ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// markKnown marks a request's connection as authenticated.
func markKnown(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.known.Store(true)
	}
}
