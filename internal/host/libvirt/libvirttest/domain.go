package libvirttest

import (
	"fmt"
	"strings"
	"testing"
)

// VM describes a tiny domain without an operating system: its firmware finds nothing to boot and idles, and it ignores requests to release
// a device.
type VM struct {
	Name    string
	Machine string // "" is q35
	Ports   int    // pcie-root-ports on q35 in addition to those of its NICs
	NICs    []string
	Extra   string // more devices, as XML
	QEMU    string // arguments for QEMU itself
	USB     bool   // a USB controller: USB devices are unplugged without asking the guest
}

// UUID derives the domain's UUID from its name's last bytes.
func (v VM) UUID() string {
	return fmt.Sprintf("00000000-0000-4000-8000-%012x", v.Name[max(0, len(v.Name)-6):])
}

// NIC returns the XML of a virtio NIC on Bridge; with teaming it is the persistent half of a pair.
func NIC(mac, alias string, teaming bool) string {
	team := ""
	if teaming {
		team = "<teaming type='persistent'/>"
	}
	return fmt.Sprintf("<interface type='bridge'><mac address='%s'/><source bridge='%s'/><model type='virtio'/>%s<alias name='%s'/>"+
		"<rom enabled='no'/></interface>", mac, Bridge, team, alias)
}

// RNG returns the XML of a device that can be hot-plugged safely.
func RNG(alias string) string {
	return fmt.Sprintf("<rng model='virtio'><backend model='random'>/dev/urandom</backend><alias name='%s'/></rng>", alias)
}

// XML returns the domain's definition.
func (v VM) XML() string {
	machine, ports := v.Machine, ""
	if machine == "" {
		machine = "q35"
	}
	if strings.Contains(machine, "q35") {
		ports = "<controller type='pci' model='pcie-root'/>" +
			strings.Repeat("<controller type='pci' model='pcie-root-port'/>", v.Ports+len(v.NICs))
	}
	return fmt.Sprintf(`<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
<name>%s</name><uuid>%s</uuid><memory unit='MiB'>16</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='%s'>hvm</type></os><features><acpi/></features>
<devices><controller type='usb' model='%s'/>%s%s%s<memballoon model='none'/></devices>
%s</domain>`, v.Name, v.UUID(), machine, v.usb(), ports, strings.Join(v.NICs, "\n"), v.Extra, v.QEMU)
}

func (v VM) usb() string {
	if v.USB {
		return "qemu-xhci"
	}
	return "none"
}

// Tablet returns the XML of a USB device, which can be unplugged from any guest.
func Tablet(alias string) string {
	return fmt.Sprintf("<input type='tablet' bus='usb'><alias name='%s'/></input>", alias)
}

// Create starts the domain, paused, as a transient one. libvirt's first words to a QEMU were once garbled on the way ("JSON parse error"
// while it asked for capabilities), so it has three tries.
func (d *Daemon) Create(t testing.TB, v VM) {
	t.Helper()
	file := d.File(t, v.XML())
	for try := 1; ; try++ {
		_, err := d.virsh("create", file, "--paused")
		if err == nil {
			return
		}
		if try == 3 {
			t.Fatal(err)
		}
		t.Logf("try %d: %v", try, err)
	}
}
