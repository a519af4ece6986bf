package libvirt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice/internal/model"
)

// ErrDisconnected means that libvirtd cannot be reached at present. Conn keeps trying to reconnect.
var ErrDisconnected = errors.New("not connected to libvirt")

// ErrStuck means that an earlier call on the same domain has not returned, or that its QEMU does not answer libvirt, so no call is made on
// it.
var ErrStuck = errors.New("the domain is stuck")

// Conn is a connection to libvirt that reconnects automatically. All methods are safe for concurrent use.
type Conn struct {
	o       Options
	at      address
	unplugs unplugs
	inv     inventory
	stop    context.CancelFunc
	done    chan struct{}

	// emulator returns the version of a domain's QEMU.
	emulator func(ctx context.Context, s *session, vm model.VMID, doc string) (version, error)

	defining sync.Mutex // held while a definition is read, changed and stored

	mu    sync.Mutex
	sess  *session  // nil while not connected
	why   error     // why it is not connected
	since time.Time // since when it is not connected
}

// Open connects and reads all domains. It fails only if a retry cannot help (unsupported URI, no permission) or if ctx ends; if libvirtd is
// down, it returns a Conn that keeps trying and whose methods return ErrDisconnected.
func Open(ctx context.Context, o Options) (*Conn, error) {
	o = o.filled()
	at, err := parseURI(o.URI)
	if err != nil {
		return nil, err
	}
	c := &Conn{o: o, at: at, done: make(chan struct{})}
	c.emulator = c.emulatorVersion
	c.down(errors.New("not connected yet"), false)
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	first := make(chan error, 1)
	go c.reconnect(life, first)
	select {
	case err = <-first:
	case <-ctx.Done():
		err = fmt.Errorf("connect to %s: %w", c.o.URI, ctx.Err())
	}
	if errors.Is(err, model.ErrPermanent) || ctx.Err() != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func (o Options) filled() Options {
	if o.URI == "" {
		o.URI = "qemu:///system"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	orElse := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	orElse(&o.Keepalive, 5*time.Second)
	orElse(&o.Resync, time.Minute)
	orElse(&o.Watch, 20*time.Second)
	orElse(&o.MinBackoff, 200*time.Millisecond)
	orElse(&o.MaxBackoff, 10*time.Second)
	orElse(&o.CallLimit, 10*time.Second)
	return o
}

// closeLimit is how long Close waits for libvirt.
const closeLimit = 2 * time.Second

// Close ends the connection. Calls in flight fail.
func (c *Conn) Close() error {
	c.stop()
	select {
	case <-c.done:
		return nil
	case <-time.After(closeLimit):
		return fmt.Errorf("close %s: libvirt did not let go within %s", c.o.URI, closeLimit)
	}
}

// session returns the current session, or an error that says why there is none.
func (c *Conn) session() (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sess != nil && c.sess.gone() == nil {
		return c.sess, nil
	}
	since, why := c.since, c.why
	if c.sess != nil {
		since, why = time.Now(), c.sess.gone()
	}
	return nil, fmt.Errorf("%s: %w (for %s): %w", c.o.URI, ErrDisconnected, time.Since(since).Round(time.Second), why)
}

func (c *Conn) up(s *session) {
	c.mu.Lock()
	c.sess = s
	c.mu.Unlock()
	c.o.Logger.Info("connected to libvirt", "uri", c.o.URI, "domains", c.inv.len())
}

// down records that there is no session, and logs the loss unless Close caused it.
func (c *Conn) down(why error, closing bool) {
	c.mu.Lock()
	was := c.sess != nil
	if was || c.since.IsZero() {
		c.since = time.Now()
	}
	c.sess, c.why = nil, why
	c.mu.Unlock()
	if was && !closing {
		c.o.Logger.Warn("lost libvirt; reconnecting", "uri", c.o.URI, "error", why)
	}
}
