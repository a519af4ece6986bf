//go:build lab

package e2e

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"sluice/lab"
)

// bondRig uses the lab's host as a guest: its NIC wire1 is virtio, and VF 6 of pf1, which has that NIC's MAC, is plugged by binding it
// to its driver. The lab's guests have neither systemd nor udev.
type bondRig struct {
	*rig
	vf string // PCI address
}

const (
	wireMAC  = "52:54:00:ee:00:02"
	examples = "/usr/share/doc/sluice-guest/examples/bond/"
)

// manager creates the bond from the package's example, adapted only where the host differs from a guest: another virtio NIC, and no
// DHCP. state is the state that it reports of an interface, unmanaged if it leaves it alone.
type manager struct{ name, start, state, stop string }

var managers = []manager{
	{
		"systemd-networkd",
		"cp " + examples + `networkd/* /etc/systemd/network/ && cd /etc/systemd/network &&
		sed -i 's/^Driver=.*/&\nName=wire1/' 20-virtio.network && sed -i s,^DHCP=.*,Address=10.9.1.100/24, 20-bond0.network &&
		printf '[Match]\nMACAddress=` + wireMAC + `\n[Network]\nAddress=10.9.1.101/24\n' \
			>90-cloud.network && # as in cloud images; it matches the VF, too
		systemctl start systemd-networkd`,
		"networkctl --no-legend list %s | awk '{print $5}'",
		"systemctl stop systemd-networkd.socket systemd-networkd; rm /etc/systemd/network/*bond0* /etc/systemd/network/20-virtio.network " +
			"/etc/systemd/network/90-cloud.network; ip link del bond0",
	},
	{
		"NetworkManager",
		"cp " + examples + `NetworkManager/* /etc/NetworkManager/system-connections/ &&
		cd /etc/NetworkManager/system-connections && chmod 600 * &&
		sed -i 's,^method=auto,method=manual\naddress1=10.9.1.100/24,;/ipv6/,$d;s/^cloned-mac.*/cloned-mac-address=` + wireMAC +
			`/' bond0.nmconnection &&
		printf '[keyfile]\nunmanaged-devices=*,except:interface-name:wire1,except:interface-name:bond0,except:driver:igbvf\n' \
			>/etc/NetworkManager/conf.d/lab.conf &&
		systemctl unmask NetworkManager && systemctl start NetworkManager`,
		"nmcli -g GENERAL.STATE device show %s | tr -cd a-z",
		"systemctl stop NetworkManager; systemctl mask NetworkManager; ip link del bond0",
	},
	{
		"ifupdown",
		"cp " + examples + `ifupdown/bond0 /etc/network/interfaces.d/ &&
		sed -i 's/enp1s0/wire1/;s/ dhcp/ static\n\taddress 10.9.1.100\/24/' /etc/network/interfaces.d/bond0 && ifup bond0`,
		"ifquery %s >/dev/null 2>&1 || echo unmanaged",
		"ifdown bond0",
	},
}

// TestBondUnderSystemd checks that the package's rule and service put a VF into the bond of each network manager, whether the VF
// appears before the bond, as at boot, or after it. No manager touches the VF, and the guest is never cut off.
func TestBondUnderSystemd(t *testing.T) {
	t.Parallel()
	b := bondRig{rig: &rig{Host: lab.OpenForTest(t, lab.Options{Systemd: true}), t: t, ctx: t.Context()}}
	b.must(b.Put(b.ctx, newest(t, "sluice-guest"), "/root/guest.deb"))
	b.run(apt + "-o 'Dpkg::Options::=--path-include=/usr/share/doc/sluice-guest/*' install /root/guest.deb")
	vf, err := b.VFAddress(b.ctx, "pf1", 6)
	b.must(err)
	b.vf = vf
	b.run(`rm /etc/systemd/network/99-default.link # as in a guest: systemd names NICs, and makes up MACs
		echo %[1]s >/sys/bus/pci/drivers/vfio-pci/unbind
		echo igbvf >/sys/bus/pci/devices/%[1]s/driver_override
		modprobe igbvf
		ip -n ext1 link set wire1 netns 1
		ip link add peer0 type veth peer name peer1 netns ext1
		ip link set peer0 master br1 up && ip addr del 10.9.1.1/24 dev br1
		ip -n ext1 addr add 10.9.1.1/24 dev peer1 && ip -n ext1 link set peer1 up
		bridge fdb add $(ip netns exec ext1 cat /sys/class/net/peer1/address) dev pf1 self`, vf)
	for i, m := range managers {
		t.Run(m.name, func(t *testing.T) {
			b := bondRig{rig: &rig{Host: b.Host, t: t, ctx: t.Context()}, vf: b.vf}
			t.Cleanup(func() {
				if t.Failed() {
					out, _ := b.Run(context.WithoutCancel(b.ctx), "cat /proc/net/bonding/bond0; ip addr; udevadm info /sys/bus/pci/devices/"+b.vf+
						"/net/*; systemctl status --no-pager 'sluice-bond@*' systemd-networkd NetworkManager; journalctl -b --no-pager | tail -40")
					t.Log(out)
				}
			})
			if i == 0 { // as at boot
				b.plug()
				b.run("%s", m.start)
			} else {
				b.run("%s", m.start)
				b.active("wire1")
				b.plug()
			}
			name := b.name()
			b.active(name)
			if out := b.run("cat /sys/class/net/bond0/bonding/primary; systemctl is-active sluice-bond@%s; ip -4 -o addr show dev %[1]s",
				name); out != name+"\nactive" {
				t.Errorf("the bond's primary, the service, addresses of the VF: %q", out)
			}
			if out := b.run(m.state, name); out != "unmanaged" {
				t.Errorf("%s says of the VF that it is %q", m.name, out)
			}
			// While the VF has the MAC, the NIC steers the guest's frames to it. Sluice clears the MAC too.
			b.run("echo %s >/sys/bus/pci/drivers/igbvf/unbind; ip link set pf1 vf 6 mac 00:00:00:00:00:00", b.vf)
			b.active("wire1")
			b.run("%s", m.stop)
		})
	}
}

func (b bondRig) plug() {
	b.t.Helper()
	b.run("ip link set pf1 vf 6 mac %s; echo %s >/sys/bus/pci/drivers/igbvf/bind", wireMAC, b.vf)
}

// name returns the name of the VF's interface, once systemd has named it.
func (b bondRig) name() (name string) {
	b.t.Helper()
	b.eventually(30*time.Second, "the VF's interface has its name", func() error {
		out, err := b.Run(b.ctx, "udevadm settle; ls -d /sys/bus/pci/devices/"+b.vf+"/net/*")
		if name = path.Base(strings.TrimSpace(out)); err == nil && strings.HasPrefix(name, "eth") {
			err = fmt.Errorf("it is %s", name)
		}
		return err
	})
	return name
}

// active waits until the bond uses a NIC and the guest is reachable through it: with its address and its MAC.
func (b bondRig) active(nic string) {
	b.t.Helper()
	b.eventually(time.Minute, "the bond uses "+nic, func() error {
		out, err := b.Run(b.ctx, "cat /sys/class/net/bond0/bonding/active_slave /sys/class/net/bond0/address")
		if want := nic + "\n" + wireMAC + "\n"; err == nil && out != want {
			err = fmt.Errorf("it uses %q, want %q", out, want)
		}
		if err == nil {
			_, err = b.Run(b.ctx, "ip netns exec ext1 ping -c 1 -W 1 10.9.1.100")
		}
		return err
	})
}
