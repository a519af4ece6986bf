// Package rtnl encodes and decodes rtnetlink messages: it builds requests, and reads answers and their attributes in place,
// without copying. Sockets, deadlines and the type of errors come from the netlink library.
package rtnl

import (
	"bytes"
	"encoding/binary"
	"iter"

	"golang.org/x/sys/unix"
)

// Message is a netlink message without its header. Data is valid only during the call that receives it.
type Message struct {
	Type uint16
	Data []byte
}

func align(n int) int { return (n + 3) &^ 3 }

// Attrs yields type and value of the attributes in b, with the flags removed from the type. It stops at the first malformed one.
func Attrs(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofRtAttr {
			n := int(binary.NativeEndian.Uint16(b))
			if n < unix.SizeofRtAttr || n > len(b) {
				return
			}
			t := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if !yield(t, b[unix.SizeofRtAttr:n]) {
				return
			}
			b = b[min(align(n), len(b)):]
		}
	}
}

// Attr returns the value of the first attribute of type t in b, nil if there is none.
func Attr(b []byte, t uint16) []byte {
	for have, v := range Attrs(b) {
		if have == t {
			return v
		}
	}
	return nil
}

// Body returns what follows a fixed header of n bytes, nil if data is shorter.
func Body(data []byte, n int) []byte {
	if len(data) < n {
		return nil
	}
	return data[n:]
}

// U8 reads a number, 0 if b is too short.
func U8(b []byte) uint8 {
	if len(b) < 1 {
		return 0
	}
	return b[0]
}

// U16 reads a number in host order, 0 if b is too short.
func U16(b []byte) uint16 {
	if len(b) < 2 {
		return 0
	}
	return binary.NativeEndian.Uint16(b)
}

// U32 reads a number in host order, 0 if b is too short.
func U32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

// U64 reads a number in host order, 0 if b is too short.
func U64(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return binary.NativeEndian.Uint64(b)
}

// CString returns b up to its first NUL byte.
func CString(b []byte) []byte {
	text, _, _ := bytes.Cut(b, []byte{0})
	return text
}
