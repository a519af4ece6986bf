package sluiceguest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/base/sleep"
	"sluice/internal/channel"
	"sluice/internal/inside/vfsysfs"
)

// soon is how long set-macs waits for a host that does not answer yet, since it usually runs while the guest boots.
const soon = time.Minute

// newMAC is the MAC that set-macs gives a VF.
type newMAC struct {
	PF     string `json:"pf"` // interface of the PF
	Index  int    `json:"index"`
	Netdev string `json:"netdev,omitempty"` // interface of the VF, "" if it has none in this network namespace
	MAC    string `json:"mac"`

	address, driver string // of the VF
}

// setMACs gives each VF of an igb the MAC that the host allows it: an igb makes up new ones whenever sriov_numvfs is written.
// VFs of virtio get their MACs from the host.
func (p *program) setMACs(ctx context.Context) (bool, error) {
	sys, err := fs.Sub(p.root, "sys")
	if err != nil {
		return false, err
	}
	pfs, err := vfsysfs.PFs(sys)
	if err != nil {
		return false, err
	}
	held, err := p.held(ctx)
	if err != nil {
		return false, err
	}
	conn, err := rtnl.Dial(1)
	if err != nil {
		return false, fmt.Errorf("open netlink: %w", err)
	}
	defer conn.Close()
	all := []newMAC{}
	var failed []error
	for _, m := range macsFor(pfs, held) {
		if err := m.set(ctx, conn, sys); err != nil {
			failed = append(failed, err)
			continue
		}
		all = append(all, m)
	}
	if p.json {
		return len(failed) == 0, errors.Join(append(failed, p.encode(all))...)
	}
	for _, m := range all {
		fmt.Fprintf(p.out, "VF %d of %s has MAC %s\n", m.Index, m.PF, m.MAC)
	}
	return len(failed) == 0, errors.Join(failed...)
}

// held asks the host for the VM's VFs, and retries until it answers.
func (p *program) held(ctx context.Context) ([]channel.Held, error) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	for {
		c, err := channel.Dial(ctx, p.socket)
		if err == nil {
			var all []channel.Held
			all, err = c.List(ctx)
			_ = c.Close()
			if err == nil {
				return all, nil
			}
		}
		if sleep.For(ctx, firstPause) != nil {
			return nil, err
		}
	}
}

// macsFor returns the MACs that the VFs of igb PFs must have.
func macsFor(pfs []vfsysfs.PF, held []channel.Held) (out []newMAC) {
	for i := range pfs {
		pf := &pfs[i]
		for _, v := range pf.VFs {
			for _, h := range held {
				if pf.Driver == "igb" && h.VF == (channel.VF{PF: pf.MAC, Index: v.Index}) {
					out = append(out, newMAC{pf.Netdev, v.Index, v.Netdev, h.MAC, v.Address, v.Driver})
				}
			}
		}
	}
	return out
}

// set brings the PF up, sets the VF's MAC through it, and rebinds the VF's driver if its interface has another MAC.
func (m *newMAC) set(ctx context.Context, conn *rtnl.Conn, sys fs.FS) error {
	mac, err := net.ParseMAC(m.MAC)
	if err == nil && len(mac) != 6 {
		err = errors.New("it does not have 6 bytes")
	}
	if err != nil {
		return fmt.Errorf("the host's MAC %q for VF %d of %s: %w", m.MAC, m.Index, m.PF, err)
	}
	if err := conn.Do(ctx, up(m.PF)); err != nil {
		return fmt.Errorf("set %s up: %w: by hand: ip link set %[1]s up", m.PF, err)
	}
	if err := conn.Do(ctx, vfMAC(m.PF, m.Index, mac)); err != nil {
		return fmt.Errorf("set the MAC of VF %d of %s to %s: %w: by hand: ip link set %[2]s vf %[1]d mac %[3]s", m.Index, m.PF, m.MAC, err)
	}
	if m.Netdev == "" { // a container has it, or it has no driver: it gets the MAC when its driver is bound
		return nil
	}
	if have, err := net.InterfaceByName(m.Netdev); err == nil && have.HardwareAddr.String() == mac.String() {
		return nil
	}
	if err := rebind(sysDrivers+m.driver, m.address); err != nil {
		return fmt.Errorf("make VF %d of %s take its MAC: %w: by hand: write %s to %s/unbind and then to bind",
			m.Index, m.PF, err, m.address, sysDrivers+m.driver)
	}
	return m.check(sys)
}

// check reports whether the VF has its MAC after its driver was rebound. Its interface may have a new name by then.
func (m *newMAC) check(sys fs.FS) error {
	name, have := vfsysfs.Netdev(sys, m.address)
	if have != m.MAC {
		return fmt.Errorf("VF %d of %s has not taken its MAC %s: its interface %q has %q: "+
			"the PF may not have answered its driver: see dmesg, and try again",
			m.Index, m.PF, m.MAC, name, have)
	}
	return nil
}

// up requests that an interface be brought up: the driver of an igb's VF asks the PF's driver for the MAC, which answers only while the
// PF is up.
func up(netdev string) *rtnl.Request {
	link := rtnl.Link(unix.AF_UNSPEC, 0)
	binary.NativeEndian.PutUint32(link[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(link[12:], unix.IFF_UP)
	return rtnl.NewRequest(unix.RTM_SETLINK, 0, link).String(unix.IFLA_IFNAME, netdev)
}

const sysDrivers = "/sys/bus/pci/drivers/"

// rebind unbinds the device from its driver and binds it again. The VF of an igb takes its MAC from the PF when its driver is bound,
// and refuses any other before that (EADDRNOTAVAIL).
func rebind(driver, address string) error {
	for _, file := range []string{"unbind", "bind"} {
		if err := os.WriteFile(driver+"/"+file, []byte(address), 0); err != nil {
			return err
		}
	}
	return nil
}

// vfMAC requests that a PF give one of its VFs a MAC, as a struct ifla_vf_mac.
func vfMAC(pf string, vf int, mac net.HardwareAddr) *rtnl.Request {
	value := binary.NativeEndian.AppendUint32(nil, uint32(vf))
	value = append(append(value, mac...), make([]byte, 32-len(mac))...)
	return rtnl.NewRequest(unix.RTM_SETLINK, 0, rtnl.Link(unix.AF_UNSPEC, 0)).String(unix.IFLA_IFNAME, pf).
		Nest(unix.IFLA_VFINFO_LIST, func(r *rtnl.Request) {
			r.Nest(unix.IFLA_VF_INFO, func(r *rtnl.Request) { r.Bytes(unix.IFLA_VF_MAC, value) })
		})
}
