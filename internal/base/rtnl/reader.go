package rtnl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// lostAfter is when an answer counts as lost, so that it does not block the socket forever.
const lostAfter = 10 * time.Second

// Reader is a socket for repeating the same few requests. It does not allocate, and passes answers on in place in its
// buffer. It is for one goroutine, and blocks as long as the kernel does, or for lostAfter if an answer is lost.
type Reader struct {
	family int           // NETLINK_ROUTE or NETLINK_GENERIC
	sock   *netlink.Conn // nil: must be reopened
	raw    syscall.RawConn
	seq    uint32
	out    []byte
	buf    []byte
	n      int
	err    error
	// interrupted reports that the kernel marked the last dump as inconsistent.
	interrupted bool

	send, receive func(fd uintptr) bool // created once
}

// NewReader opens a socket in the network namespace of the calling thread, like Dial.
func NewReader() (*Reader, error) { return newReader(unix.NETLINK_ROUTE) }

func newReader(family int) (*Reader, error) {
	r := &Reader{family: family, buf: make([]byte, bufferSize)}
	r.send = func(fd uintptr) bool {
		_, r.err = unix.Write(int(fd), r.out)
		return r.err != unix.EAGAIN //nolint:errorlint // an errno as it comes
	}
	r.receive = func(fd uintptr) bool {
		r.n, r.err = unix.Read(int(fd), r.buf)
		return r.err != unix.EAGAIN //nolint:errorlint // an errno as it comes
	}
	return r, r.open()
}

func (r *Reader) open() (err error) {
	r.sock, err = netlink.Dial(r.family, &netlink.Config{Strict: true, MessageBufferSize: bufferSize})
	if err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	r.raw, err = r.sock.SyscallConn()
	return err
}

// Close closes the socket.
func (r *Reader) Close() error {
	if r.sock == nil {
		return nil
	}
	err := r.sock.Close()
	r.sock = nil
	return err
}

// Get requests one message, Dump many; both call each with every answer.
func (r *Reader) Get(req *Request, each func(Message)) error { return r.ask(req, 0, each) }

// Dump is Get for requests that are answered by many messages. Objects that appear or vanish meanwhile may be missing.
func (r *Reader) Dump(req *Request, each func(Message)) error {
	return r.ask(req, unix.NLM_F_DUMP, each)
}

// ask closes the socket after a failure, since an answer may still arrive, and reopens it for the next request.
func (r *Reader) ask(req *Request, flags uint16, each func(Message)) (err error) {
	if r.sock == nil {
		if err := r.open(); err != nil {
			return err
		}
	}
	if err = r.exchange(req, flags, each); err != nil && !refused(err) {
		_ = r.Close()
	}
	return err
}

func (r *Reader) exchangeKernel(req *Request, flags uint16, each func(Message)) error {
	r.seq, r.interrupted = r.seq+1, false
	r.out = req.seal(r.out[:0], r.seq, flags)
	if err := r.sock.SetDeadline(time.Now().Add(lostAfter)); err != nil {
		return err
	}
	if err := errors.Join(r.raw.Write(r.send), os.NewSyscallError("send", r.err)); err != nil {
		return err
	}
	for {
		if err := errors.Join(r.raw.Read(r.receive), os.NewSyscallError("receive", r.err)); err != nil {
			return err
		}
		if r.n == len(r.buf) { // there may have been more
			return errTruncated
		}
		if done, err := r.take(r.buf[:r.n], flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP, each); done || err != nil {
			return err
		}
	}
}

var errTruncated = errors.New("truncated answer")

// take processes one datagram and reports whether it was the last.
func (r *Reader) take(b []byte, dump bool, each func(Message)) (done bool, err error) {
	for len(b) > 0 {
		h, data, rest, ok := next(b)
		if h.seq == r.seq && h.flags&unix.NLM_F_DUMP_INTR != 0 { // the kernel may mark no message but the last
			r.interrupted = true
		}
		switch {
		case !ok:
			return true, errTruncated
		case h.seq != r.seq:
		case h.typ == unix.NLMSG_ERROR || h.typ == unix.NLMSG_DONE:
			return true, verdict(h, data)
		default:
			each(Message{Type: h.typ, Data: data})
			done = !dump
		}
		b = rest
	}
	return done, nil
}

// refused reports whether an error is the kernel's answer to a request.
func refused(err error) bool {
	var e *netlink.OpError
	return errors.As(err, &e) && e.Sequence != 0
}

// verdict returns the errno of an NLMSG_ERROR or NLMSG_DONE as an error, with the text that the kernel gives for it, if any. In an
// NLMSG_ERROR that text follows the request: its header, or all of it.
func verdict(h header, data []byte) error {
	errno := int32(U32(data))
	if errno >= 0 {
		return nil
	}
	e := &netlink.OpError{Op: "receive", Err: unix.Errno(-errno), Sequence: h.seq}
	if h.flags&unix.NLM_F_ACK_TLVS != 0 {
		skip := 4
		if h.typ == unix.NLMSG_ERROR {
			skip += unix.NLMSG_HDRLEN
			if h.flags&unix.NLM_F_CAPPED == 0 {
				skip = 4 + align(int(U32(Body(data, 4))))
			}
		}
		e.Message = string(CString(Attr(Body(data, skip), unix.NLMSGERR_ATTR_MSG)))
	}
	return e
}

// header contains the fields of nlmsghdr that identify an answer.
type header struct {
	typ, flags uint16
	seq        uint32
}

// next splits the first message off b. ok is false if b contains no complete message.
func next(b []byte) (h header, data, rest []byte, ok bool) {
	if len(b) < unix.NLMSG_HDRLEN {
		return h, nil, nil, false
	}
	n := int(binary.NativeEndian.Uint32(b))
	if n < unix.NLMSG_HDRLEN || n > len(b) {
		return h, nil, nil, false
	}
	h = header{typ: binary.NativeEndian.Uint16(b[4:]), flags: binary.NativeEndian.Uint16(b[6:]), seq: binary.NativeEndian.Uint32(b[8:])}
	return h, b[unix.NLMSG_HDRLEN:n], b[min(align(n), len(b)):], true
}
