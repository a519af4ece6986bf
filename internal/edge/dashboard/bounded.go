package dashboard

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxConnections bounds those of a Server. A browser opens six, and one for each page that is followed.
const maxConnections = 64

// writeTimeout is how long a reader may leave unread what is sent.
const writeTimeout = 30 * time.Second

// bounded holds at most maxConnections. Any user of the host can connect: when one more comes, the oldest on which nobody
// was let in is closed for it.
type bounded struct {
	net.Listener

	mu   sync.Mutex
	open []*conn // oldest first
}

// conn is a connection in a bounded listener.
type conn struct {
	net.Conn
	from  *bounded
	known atomic.Bool // its browser was let in
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

// add returns the connection that is to be closed for it, itself where all others are known; nil for none.
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

// Write fails when nobody reads for too long.
func (c *conn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Close gives its place back.
func (c *conn) Close() error {
	c.from.mu.Lock()
	if i := slices.Index(c.from.open, c); i >= 0 {
		c.from.open = slices.Delete(c.from.open, i, i+1)
	}
	c.from.mu.Unlock()
	return c.Conn.Close()
}

type connKey struct{}

// withConn is an http.Server's ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// keep marks a request's connection as one of a browser that was let in.
func keep(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.known.Store(true)
	}
}
