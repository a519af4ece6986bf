package guest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"sluice/internal/model"
)

// Socket is a Transport straight to an agent that listens on a Unix socket, without
// libvirt. It serves one VM, one command at a time, and keeps its connection
// until something goes wrong on it.
type Socket struct {
	path string
	turn chan struct{} // holds one token: whoever has it uses conn
	conn *link
}

// NewSocket makes a Socket. It connects with the first command.
func NewSocket(path string) *Socket {
	s := &Socket{path: path, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

// Agent implements Transport; the VM is not looked at.
func (s *Socket) Agent(ctx context.Context, _ model.VMID, cmd []byte) ([]byte, error) {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { s.turn <- struct{}{} }()
	answer, err := s.ask(ctx, cmd)
	if err != nil {
		s.hangUp()
		return nil, fmt.Errorf("guest agent at %s: %w", s.path, because(ctx, err))
	}
	return answer, nil
}

// because prefers the context's reason to the timeout it caused on the socket.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", model.ErrGuest, ctx.Err())
	}
	return err
}

// Close closes the connection, if there is one.
func (s *Socket) Close() error {
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	s.hangUp()
	return nil
}

func (s *Socket) hangUp() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

func (s *Socket) ask(ctx context.Context, cmd []byte) ([]byte, error) {
	if s.conn == nil {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", s.path)
		if err != nil {
			return nil, err
		}
		s.conn = &link{Conn: c, in: bufio.NewReader(c)}
	}
	stop := s.conn.obey(ctx)
	defer func() {
		if !stop() {
			s.hangUp() // ctx has ended, or is just ending: the connection is of no more use
		}
	}()
	if !s.conn.synced {
		if err := s.conn.sync(); err != nil {
			return nil, err
		}
	}
	if _, err := s.conn.Write(append(cmd, '\n')); err != nil {
		return nil, err
	}
	return s.conn.until('\n')
}

// link is a connection to an agent.
type link struct {
	net.Conn
	in     *bufio.Reader
	synced bool
}

// obey makes reads and writes fail when ctx ends. The function it returns ends that,
// and says whether ctx had not ended.
func (l *link) obey(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = l.SetDeadline(time.Unix(1, 0)) })
}

// sync gets agent and us to the same place in the conversation: whatever was said
// to others before is skipped. 0xFF is in no JSON; the agent answers it with an
// error, and marks the start of its answer to the command with another.
func (l *link) sync() error {
	id := rand.Int64N(1 << 31)
	if _, err := fmt.Fprintf(l, "\xff{\"execute\":\"guest-sync-delimited\",\"arguments\":{\"id\":%d}}\n", id); err != nil {
		return err
	}
	for range maxStale {
		if _, err := l.until(0xff); err != nil {
			return err
		}
		line, err := l.until('\n')
		if err != nil {
			return err
		}
		var reply struct {
			Return *int64 `json:"return"`
		}
		if json.Unmarshal(line, &reply) == nil && reply.Return != nil && *reply.Return == id {
			l.synced = true
			return nil
		}
	}
	return bad("%d answers to other people's questions", maxStale)
}

// maxStale bounds the answers to others that sync skips.
const maxStale = 16

// until reads up to and without the delimiter, no more than an answer may have.
func (l *link) until(delim byte) ([]byte, error) {
	var out []byte
	for {
		part, err := l.in.ReadSlice(delim)
		out = append(out, part...)
		switch {
		case len(out) > maxAnswer:
			return nil, bad("more than %d bytes", maxAnswer)
		case err == nil:
			return out[:len(out)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
