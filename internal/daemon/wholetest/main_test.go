package wholetest

import (
	"context"
	"errors"
	"fmt"
	"net/rpc"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/daemon"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/netdev"
	"sluice/internal/host/sysif"
)

// daemonEnv is the environment variable that makes this binary the daemon of the site in that directory.
const daemonEnv = "SLUICE_TEST_WHOLE_DAEMON"

func TestMain(m *testing.M) {
	if dir := os.Getenv(daemonEnv); dir != "" {
		os.Exit(runDaemon(dir))
	}
	kerneltest.Main(m)
}

// runDaemon is sluiced on the host of the site: in a mount namespace of its own, with the site's sysfs, and with the site's NIC.
func runDaemon(dir string) int {
	client, err := rpc.Dial("unix", filepath.Join(dir, "nic"))
	if err == nil {
		err = errors.Join(
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount(filepath.Join(dir, "sys"), "/sys", "", unix.MS_BIND|unix.MS_REC, ""),
			unix.Mount("tmpfs", "/run", "tmpfs", 0, ""), // where daemons of one host find each other
		)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot make the site:", err)
		return 1
	}
	rtnl.Driver = (&driver{client}).exchange
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return daemon.Main(ctx, []string{"--config", filepath.Join(dir, "sluice.yaml")}, os.Stdout, os.Stderr, "1.2.3")
}

// driver stands for the driver of the NIC in the daemon's process.
type driver struct{ nic *rpc.Client }

// devlinkFamily is the ID of devlink's family, which not every kernel has.
const devlinkFamily = 0x7ff0

// exchange implements rtnl.Driver.
func (d *driver) exchange(family int, req rtnl.Message, kernel func(func(rtnl.Message)) error, each func(rtnl.Message)) error {
	switch {
	case family == unix.NETLINK_GENERIC:
		return d.generic(req, kernel, each)
	case req.Type == unix.RTM_GETLINK:
		var nic NIC
		if err := d.nic.Call("NIC.Read", struct{}{}, &nic); err != nil {
			return err
		}
		vfs := rtnl.U32(rtnl.Attr(rtnl.Body(req.Data, unix.SizeofIfInfomsg), unix.IFLA_EXT_MASK))&netdev.ExtVF != 0
		return kernel(func(m rtnl.Message) { each(nic.complete(m, vfs)) })
	case req.Type&3 == unix.RTM_GETLINK&3: // every third of four types is a query
		return kernel(each)
	}
	if err := d.nic.Call("NIC.Change", req.Type, &struct{}{}); err != nil {
		return err
	}
	if list := rtnl.Attr(rtnl.Body(req.Data, unix.SizeofIfInfomsg), unix.IFLA_VFINFO_LIST); req.Type == unix.RTM_SETLINK && list != nil {
		var errno unix.Errno
		if err := d.nic.Call("NIC.Set", rtnl.Attr(list, unix.IFLA_VF_INFO), &errno); err != nil {
			return err
		}
		if errno != 0 {
			return &netlink.OpError{Op: "receive", Err: errno, Sequence: 1}
		}
		return nil
	}
	return kernel(each)
}

// generic answers for devlink: the embedded switch is in mode switchdev, and has no rate objects.
func (d *driver) generic(req rtnl.Message, kernel func(func(rtnl.Message)) error, each func(rtnl.Message)) error {
	attrs := rtnl.Body(req.Data, unix.GENL_HDRLEN)
	switch {
	case req.Type == unix.GENL_ID_CTRL && string(rtnl.CString(rtnl.Attr(attrs, unix.CTRL_ATTR_FAMILY_NAME))) == "devlink":
		each(rtnl.NewRequest(req.Type, 0, sysif.GenericHeader(0)).U16(unix.CTRL_ATTR_FAMILY_ID, devlinkFamily).Message())
	case req.Type == devlinkFamily && req.Data[0] == unix.DEVLINK_CMD_ESWITCH_GET:
		each(rtnl.NewRequest(req.Type, 0, sysif.GenericHeader(0)).
			U16(unix.DEVLINK_ATTR_ESWITCH_MODE, unix.DEVLINK_ESWITCH_MODE_SWITCHDEV).Message())
	case req.Type == devlinkFamily:
	default:
		return kernel(each)
	}
	return nil
}

// complete adds to what the kernel says of an interface what the NIC's driver would have told it.
func (n *NIC) complete(m rtnl.Message, vfs bool) rtnl.Message {
	index := int(rtnl.U32(rtnl.Body(m.Data, 4)))
	port, ours := n.Ports[index]
	if m.Type != unix.RTM_NEWLINK || !ours {
		return m
	}
	out := rtnl.NewRequest(m.Type, 0, m.Data).Bytes(unix.IFLA_PHYS_SWITCH_ID, []byte{0xa1}).String(unix.IFLA_PHYS_PORT_NAME, port)
	if vfs && port == pfPort {
		out.Nest(unix.IFLA_VFINFO_LIST, func(r *rtnl.Request) {
			for i := range n.VFs {
				r.Nest(unix.IFLA_VF_INFO, func(r *rtnl.Request) {
					for attr, value := range n.VFs[i] {
						r.Bytes(attr, append(sysif.Words(uint32(i)), value...))
					}
				})
			}
		})
	}
	return out.Message()
}
