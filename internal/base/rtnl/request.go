package rtnl

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Request is a message to the kernel: type, flags, fixed header and attributes.
type Request struct {
	typ, flags uint16
	buf        []byte
}

// NewRequest starts a request. NLM_F_REQUEST is implied.
func NewRequest(typ, flags uint16, fixed []byte) *Request {
	return &Request{typ: typ, flags: flags, buf: append(make([]byte, 0, 128), fixed...)}
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

// U64 appends a number in host order.
func (r *Request) U64(t uint16, v uint64) *Request {
	return r.Bytes(t, binary.NativeEndian.AppendUint64(nil, v))
}

// String appends a NUL-terminated string.
func (r *Request) String(t uint16, v string) *Request {
	return r.Bytes(t, append([]byte(v), 0))
}

// Nest appends an attribute that contains what fill appends.
func (r *Request) Nest(t uint16, fill func(*Request)) *Request {
	at := len(r.buf)
	r.Bytes(t|unix.NLA_F_NESTED, nil)
	fill(r)
	binary.NativeEndian.PutUint16(r.buf[at:], uint16(len(r.buf)-at))
	return r
}

// Message returns the request as the message that would be received.
func (r *Request) Message() Message { return Message{Type: r.typ, Data: r.buf} }

// seal appends the complete message to b.
func (r *Request) seal(b []byte, seq uint32, flags uint16) []byte {
	b = binary.NativeEndian.AppendUint32(b, uint32(unix.NLMSG_HDRLEN+len(r.buf)))
	b = binary.NativeEndian.AppendUint16(b, r.typ)
	b = binary.NativeEndian.AppendUint16(b, r.flags|flags|unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = binary.NativeEndian.AppendUint32(b, 0)
	return append(b, r.buf...)
}

func (r *Request) pad() {
	for len(r.buf) < align(len(r.buf)) {
		r.buf = append(r.buf, 0)
	}
}

// Link returns an ifinfomsg, the fixed header of link requests. Index 0 is for use with an IFLA_IFNAME attribute, or means all in
// a dump.
func Link(family uint8, index int) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	b[0] = family
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	return b
}

// Neigh returns an ndmsg, the fixed header of neighbour and FDB requests.
func Neigh(family uint8, index int, state uint16, flags uint8) []byte {
	b := make([]byte, unix.SizeofNdMsg)
	b[0] = family
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	binary.NativeEndian.PutUint16(b[8:], state)
	b[10] = flags
	return b
}

// Traffic returns a tcmsg, the fixed header of requests about queueing disciplines and their classes.
func Traffic(index int, handle, parent uint32) []byte {
	b := make([]byte, SizeofTraffic)
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	binary.NativeEndian.PutUint32(b[8:], handle)
	binary.NativeEndian.PutUint32(b[12:], parent)
	return b
}

// SizeofTraffic is the size of a tcmsg.
const SizeofTraffic = 20
