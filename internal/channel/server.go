package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Conn is a connection: a net.Conn, or the file of a virtio-serial port.
type Conn interface {
	io.ReadWriteCloser
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// Limits bounds the load that the other side of a connection can cause. A field that is 0 has the default given here.
type Limits struct {
	Requests int           // handled per second, and burst; 20
	Bytes    int           // read per second, and burst; 64 KiB
	Handle   time.Duration // for one request; 30 s
	Write    time.Duration // for the other side to take an answer; 5 s
	Silent   time.Duration // for the other side to send anything; 30 s. sluice-guest repeats its hello every 11 s
}

const writeFor = 5 * time.Second

func (l Limits) withDefaults() Limits {
	return Limits{
		cmp.Or(l.Requests, 20), cmp.Or(l.Bytes, 64<<10), cmp.Or(l.Handle, 30*time.Second), cmp.Or(l.Write, writeFor),
		cmp.Or(l.Silent, 30*time.Second),
	}
}

// ErrFlood is why Serve ends a connection whose other side keeps sending at its maximum rate. Closing the connection also discards the
// sender's queue, which would take minutes to work off.
var ErrFlood = errors.New("it kept sending more than any honest sender would")

// ErrSilent is why Serve ends a connection on which nothing has come for Limits.Silent. QEMU may leave a guest's port blocked when its
// connection is closed with data on the way, so that the next one receives nothing, however long it waits; the one after that does.
var ErrSilent = errors.New("it sent nothing")

// Serve answers the requests of a connection one after the other, and closes the connection at the end. It returns nil if the other
// side closed it, the context's error if the context ended, and otherwise the failure, such as ErrFlood, ErrSilent or an other side that
// reads no answers.
func Serve(ctx context.Context, conn Conn, h Handler, l Limits) error {
	l = l.withDefaults()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		stop()
		_ = conn.Close()
	}()
	s := &server{
		in: NewReader(&slowReader{ctx, conn, newFlow(l.Bytes, 8), l.Silent}), out: writer{conn: conn, within: l.Write},
		requests: newFlow(l.Requests, 30), handler: h, limits: l,
	}
	err := s.run(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

type server struct {
	in       *Reader
	out      writer
	requests flow
	handler  Handler
	limits   Limits
}

func (s *server) run(ctx context.Context) error {
	for {
		m, err := s.in.Next()
		if err != nil {
			return err
		}
		if m.Method == "" {
			continue // a stray answer: the server sends no requests
		}
		if err := s.requests.take(ctx, 1); err != nil {
			return err
		}
		a := s.answer(ctx, &m)
		if m.ID == 0 {
			continue
		}
		if err := s.out.send(a); err != nil {
			return err
		}
	}
}

// answer carries out a request.
func (s *server) answer(ctx context.Context, m *Message) *Message {
	a := &Message{V: Version, ID: m.ID}
	if m.V != Version {
		a.Error = otherVersion(m.V)
		return a
	}
	ctx, cancel := context.WithTimeout(ctx, s.limits.Handle)
	defer cancel()
	body, err := s.handler.Handle(ctx, m.Method, m.Body)
	if err == nil && body != nil {
		a.Body, err = marshal(body)
	}
	if len(a.Body) > maxBody {
		a.Body, err = nil, &Error{Code: CodeFailed, Text: "the answer is too long", Remedy: "ask for less at a time"}
	}
	if err != nil && !errors.As(err, &a.Error) {
		a.Error = &Error{
			Code: CodeFailed, Text: fmt.Sprintf("%s could not be carried out", m.Method),
			Remedy: "try again; the log of the side that received the request says why",
		}
	}
	return a
}

// flow limits a rate, and how long it may be sustained.
type flow struct{ second, sustained *rate.Limiter }

// newFlow lets perSecond through each second. A sender that keeps up that rate for twice the given seconds fails with ErrFlood.
func newFlow(perSecond, seconds int) flow {
	return flow{rate.NewLimiter(rate.Limit(perSecond), perSecond), rate.NewLimiter(rate.Limit(perSecond)/2, seconds*perSecond)}
}

// take waits until n may pass.
func (f flow) take(ctx context.Context, n int) error {
	if !f.sustained.AllowN(time.Now(), n) {
		return ErrFlood
	}
	return f.second.WaitN(ctx, n)
}

// slowReader limits the read rate, so that a flood costs only its sender's time.
type slowReader struct {
	ctx    context.Context
	conn   Conn
	flow   flow
	silent time.Duration
}

func (s *slowReader) Read(p []byte) (int, error) {
	if err := s.conn.SetReadDeadline(time.Now().Add(s.silent)); err != nil {
		return 0, err
	}
	n, err := s.conn.Read(p[:min(len(p), s.flow.second.Burst())])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, ErrSilent
	}
	if err := s.flow.take(s.ctx, n); err != nil {
		return 0, err
	}
	return n, err
}

// writer sends whole messages, from any goroutine. After an error, part of a message may have been sent.
type writer struct {
	mu     sync.Mutex
	conn   Conn
	within time.Duration
}

func (w *writer) send(m *Message) error {
	b, err := frame(m)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	err = w.conn.SetWriteDeadline(time.Now().Add(w.within))
	if err == nil {
		_, err = w.conn.Write(b)
	}
	if err != nil {
		return fmt.Errorf("write to the channel: %w", err)
	}
	return nil
}
