package kernel

import (
	"context"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
)

// genericHeader is the fixed header of generic netlink: command, version and two bytes for later.
func genericHeader(cmd uint8) []byte { return []byte{cmd, 1, 0, 0} }

// genericFamily asks for the number that this kernel gives a family of generic netlink. ENOENT: it has none of that name.
func genericFamily(ctx context.Context, conn *rtnl.Conn, name string) (uint16, error) {
	req := rtnl.NewRequest(unix.GENL_ID_CTRL, 0, genericHeader(unix.CTRL_CMD_GETFAMILY)).String(unix.CTRL_ATTR_FAMILY_NAME, name)
	return rtnl.Get(ctx, conn, req, func(m rtnl.Message) (uint16, error) {
		id := rtnl.U16(rtnl.Attr(rtnl.Body(m.Data, unix.GENL_HDRLEN), unix.CTRL_ATTR_FAMILY_ID))
		if id == 0 {
			return 0, errNoAnswer
		}
		return id, nil
	})
}
