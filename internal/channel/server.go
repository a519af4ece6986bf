package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Conn is a connection: a net.Conn, or the file of a virtio-serial port.
type Conn interface {
	io.ReadWriteCloser
	SetWriteDeadline(t time.Time) error
}

// Limits bounds the load that the other side of a connection can cause. A field that is 0 has the default given here.
type Limits struct {
	Requests int           // handled per second, and burst; 20
	Bytes    int           // read per second, and burst; 64 KiB
	Handle   time.Duration // for one request; 30 s
	Write    time.Duration // for the other side to take an answer; 5 s
}

const writeFor = 5 * time.Second

func (l Limits) withDefaults() Limits {
	return Limits{cmp.Or(l.Requests, 20), cmp.Or(l.Bytes, 64<<10), cmp.Or(l.Handle, 30*time.Second), cmp.Or(l.Write, writeFor)}
}

// ErrFlood is why Serve ends a connection whose other side keeps sending at its maximum rate. Closing the connection also discards the
// sender's queue, which would take minutes to work off.
var ErrFlood = errors.New("it kept sending more than any honest sender would")

// Serve answers the requests of a connection one after the other, and closes the connection at the end. It returns nil if the other
// side closed it, the context's error if the context ended, and otherwise the failure, such as ErrFlood or an other side that reads no
// answers.
func Serve(ctx context.Context, conn Conn, h Handler, l Limits) error {
	l = l.withDefaults()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		stop()
		_ = conn.Close()
	}()
	s := &server{
		in: NewReader(&slowReader{ctx, conn, newFlow(l.Bytes, 8)}), out: writer{conn: conn, within: l.Write},
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
	ctx  context.Context
	r    io.Reader
	flow flow
}

func (s *slowReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p[:min(len(p), s.flow.second.Burst())])
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
