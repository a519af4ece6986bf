package channel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// ErrClosed is the error of a call whose connection ended before the answer came. The request may have been carried out.
var ErrClosed = errors.New("the connection has ended")

// Client sends requests over a connection. Its methods may be called concurrently.
type Client struct {
	out  writer
	conn Conn
	done chan struct{} // closed when reading has ended

	mu      sync.Mutex
	last    uint64 // last ID used
	waiting map[uint64]chan<- Message
	err     error // why reading has ended
}

// Dial connects to a unix socket, usually Socket.
func Dial(ctx context.Context, socket string) (*Client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("connect to sluice-guest: %w: check that it runs (systemctl status sluice-guest, sluice-guest doctor)", err)
	}
	return NewClient(conn), nil
}

// NewClient returns a Client that reads from conn until the connection ends and then closes Done. The caller must close it.
func NewClient(conn Conn) *Client {
	c := &Client{
		out: writer{conn: conn, within: writeFor}, conn: conn, done: make(chan struct{}),
		last:    rand.Uint64() >> 12, // leaves an integer that every JSON decoder reads exactly
		waiting: map[uint64]chan<- Message{},
	}
	go c.read()
	return c
}

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns why the connection has ended, io.EOF if the other side closed it; nil before Done.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close closes the connection and waits until reading has ended.
func (c *Client) Close() error {
	err := c.conn.Close()
	<-c.done
	return err
}

// read passes each answer to the call that waits for it, and drops any other.
func (c *Client) read() {
	in := NewReader(c.conn)
	for {
		m, err := in.Next()
		if err != nil {
			c.mu.Lock()
			c.err = fmt.Errorf("%w: %w", ErrClosed, err)
			c.mu.Unlock()
			close(c.done)
			return
		}
		if m.answers() {
			c.mu.Lock()
			waits := c.waiting[m.ID]
			delete(c.waiting, m.ID)
			c.mu.Unlock()
			if waits != nil {
				waits <- m
			}
		}
	}
}

// Call sends a request and decodes the answer; answer may be nil. A refusal is an *Error.
func (c *Client) Call(ctx context.Context, method Method, body, answer any) error {
	m, err := c.ask(ctx, method, body)
	switch {
	case err != nil:
		return fmt.Errorf("request %s: %w", method, err)
	case m.V != Version:
		return otherVersion(m.V)
	case m.Error != nil:
		return m.Error
	case answer == nil:
		return nil
	}
	if err := loose(m.Body, answer); err != nil {
		return fmt.Errorf("read the answer to %s: %w", method, err)
	}
	return nil
}

// List returns the VM's VFs, which it fetches page by page.
func (c *Client) List(ctx context.Context) ([]Held, error) {
	var all []Held
	for from := 0; ; {
		var page List
		if err := c.Call(ctx, MethodList, ListFrom{From: from}, &page); err != nil {
			return nil, err
		}
		all = append(all, page.VFs...)
		if page.Next <= from || len(all) > maxList { // the last page, or an invalid answer
			return all, nil
		}
		from = page.Next
	}
}

// Send sends a message that needs no answer.
func (c *Client) Send(method Method, body any) error {
	m, err := request(0, method, body)
	if err == nil {
		err = c.out.send(m)
	}
	if err != nil {
		return fmt.Errorf("send %s: %w", method, err)
	}
	return nil
}

func (c *Client) ask(ctx context.Context, method Method, body any) (Message, error) {
	id, answer := c.wait()
	defer c.forget(id)
	m, err := request(id, method, body)
	if err != nil {
		return Message{}, err
	}
	if err := c.out.send(m); err != nil {
		return Message{}, err
	}
	select {
	case m := <-answer:
		return m, nil
	case <-ctx.Done():
		return Message{}, ctx.Err()
	case <-c.done:
	}
	select { // the answer may have come just before the end
	case m := <-answer:
		return m, nil
	default:
		return Message{}, c.Err()
	}
}

// wait allocates an ID and returns it with the channel for its answer.
func (c *Client) wait() (uint64, <-chan Message) {
	answer := make(chan Message, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	c.waiting[c.last] = answer
	return c.last, answer
}

func (c *Client) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

func request(id uint64, method Method, body any) (*Message, error) {
	m := &Message{V: Version, ID: id, Method: method}
	if body == nil {
		return m, nil
	}
	b, err := marshal(body)
	m.Body = b
	return m, err
}
