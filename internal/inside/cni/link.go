package cni

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
)

// setLink sets an interface of this network namespace down and sets its MAC and, unless name is "", its name. If the name is taken, the
// interface keeps its current one, without an error.
func setLink(ctx context.Context, netdev, name, mac string) error {
	address, err := net.ParseMAC(mac)
	if err != nil {
		return err
	}
	i, err := net.InterfaceByName(netdev)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", netdev, err)
	}
	conn, err := rtnl.Dial(1)
	if err != nil {
		return err
	}
	defer conn.Close()
	down := rtnl.Link(unix.AF_UNSPEC, i.Index)
	binary.NativeEndian.PutUint32(down[12:], unix.IFF_UP) // ifi_change; ifi_flags are 0
	if err := conn.Do(ctx, rtnl.NewRequest(unix.RTM_SETLINK, 0, down)); err != nil {
		return fmt.Errorf("set interface %s down: %w", netdev, err)
	}
	set := func() *rtnl.Request { return rtnl.NewRequest(unix.RTM_SETLINK, 0, rtnl.Link(unix.AF_UNSPEC, i.Index)) }
	if err := conn.Do(ctx, set().Bytes(unix.IFLA_ADDRESS, address)); err != nil {
		return fmt.Errorf("give interface %s the MAC %s: %w", netdev, mac, err)
	}
	if name == "" || name == netdev {
		return nil
	}
	err = conn.Do(ctx, set().String(unix.IFLA_IFNAME, name).Bytes(unix.IFLA_IFALIAS, nil)) // host-device stored the name as alias
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("rename interface %s to %s: %w", netdev, name, err)
	}
	return nil
}
