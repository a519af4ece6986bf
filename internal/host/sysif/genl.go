package sysif

import (
	"context"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
)

// GenericHeader is the fixed header of generic netlink: command, version and two reserved bytes.
func GenericHeader(cmd uint8) []byte { return []byte{cmd, 1, 0, 0} }

// GenericFamily looks up the ID of a generic netlink family; ENOENT means that the kernel has none of that name.
func GenericFamily(ctx context.Context, conn *rtnl.Conn, name string) (uint16, error) {
	req := rtnl.NewRequest(unix.GENL_ID_CTRL, 0, GenericHeader(unix.CTRL_CMD_GETFAMILY)).String(unix.CTRL_ATTR_FAMILY_NAME, name)
	return rtnl.Get(ctx, conn, req, func(m rtnl.Message) (uint16, error) {
		id := rtnl.U16(rtnl.Attr(rtnl.Body(m.Data, unix.GENL_HDRLEN), unix.CTRL_ATTR_FAMILY_ID))
		if id == 0 {
			return 0, ErrNoAnswer
		}
		return id, nil
	})
}

// Absent turns errors of a kernel or driver that lacks the feature into nil.
func Absent(err error) error {
	for _, errno := range []unix.Errno{unix.ENOENT, unix.EOPNOTSUPP, unix.ENODEV} {
		if errors.Is(err, errno) {
			return nil
		}
	}
	return err
}

// ErrNoAnswer means that the kernel answered with something other than requested.
var ErrNoAnswer = errors.New("unintelligible answer")

// Bit encodes a flag for netlink.
func Bit(on bool) uint32 {
	if on {
		return 1
	}
	return 0
}

// Words encodes a struct of 32-bit numbers in host order.
func Words(w ...uint32) (b []byte) {
	for _, v := range w {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return b
}
