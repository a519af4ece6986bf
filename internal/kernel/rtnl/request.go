package rtnl

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Request is a message to the kernel: a type, flags, a fixed header and attributes.
type Request struct {
	buf []byte
}

// NewRequest starts a request. NLM_F_REQUEST is implied.
func NewRequest(typ, flags uint16, fixed []byte) *Request {
	b := make([]byte, unix.NLMSG_HDRLEN, 128)
	binary.NativeEndian.PutUint16(b[4:], typ)
	binary.NativeEndian.PutUint16(b[6:], flags|unix.NLM_F_REQUEST)
	return &Request{buf: append(b, fixed...)}
}

// Bytes appends an attribute.
func (r *Request) Bytes(t uint16, v []byte) *Request {
	r.buf = binary.NativeEndian.AppendUint16(r.buf, uint16(unix.SizeofRtAttr+len(v)))
	r.buf = binary.NativeEndian.AppendUint16(r.buf, t)
	r.buf = append(r.buf, v...)
	r.pad()
	return r
}

// U8 appends an attribute of one byte.
func (r *Request) U8(t uint16, v uint8) *Request { return r.Bytes(t, []byte{v}) }

// U16 appends a number in host order.
func (r *Request) U16(t, v uint16) *Request {
	return r.Bytes(t, binary.NativeEndian.AppendUint16(nil, v))
}

// U32 appends a number in host order.
func (r *Request) U32(t uint16, v uint32) *Request {
	return r.Bytes(t, binary.NativeEndian.AppendUint32(nil, v))
}

// String appends a NUL-terminated string.
func (r *Request) String(t uint16, v string) *Request {
	return r.Bytes(t, append([]byte(v), 0))
}

// Nest appends an attribute that holds what fill appends.
func (r *Request) Nest(t uint16, fill func(*Request)) *Request {
	at := len(r.buf)
	r.Bytes(t|unix.NLA_F_NESTED, nil)
	fill(r)
	binary.NativeEndian.PutUint16(r.buf[at:], uint16(len(r.buf)-at))
	return r
}

// Data returns the fixed header and the attributes, as Message.Data has them.
func (r *Request) Data() []byte { return r.buf[unix.NLMSG_HDRLEN:] }

// Seal returns the whole message, as a notification has it.
func (r *Request) Seal() []byte { return r.seal(0, 0) }

func (r *Request) pad() {
	for len(r.buf) < align(len(r.buf)) {
		r.buf = append(r.buf, 0)
	}
}

// seal sets length, sequence number and further flags.
func (r *Request) seal(seq uint32, flags uint16) []byte {
	binary.NativeEndian.PutUint32(r.buf, uint32(len(r.buf)))
	have := binary.NativeEndian.Uint16(r.buf[6:])
	binary.NativeEndian.PutUint16(r.buf[6:], have|flags)
	binary.NativeEndian.PutUint32(r.buf[8:], seq)
	return r.buf
}

// Link returns an ifinfomsg: the fixed header of link requests. Index 0 goes with an
// IFLA_IFNAME attribute, or means all in a dump.
func Link(family uint8, index int) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	b[0] = family
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	return b
}

// Neigh returns an ndmsg: the fixed header of neighbour and bridge-entry requests.
func Neigh(family uint8, index int, state uint16, flags uint8) []byte {
	b := make([]byte, unix.SizeofNdMsg)
	b[0] = family
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	binary.NativeEndian.PutUint16(b[8:], state)
	b[10] = flags
	return b
}
