package wholetest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
)

// The domain.
const (
	vmName  = "vm1"
	vmUUID  = "00000000-0000-4000-8000-000000000001"
	guestIF = "ua-net0"
)

// vmXML is its live XML; %s are its hostdevs.
var vmXML = `<domain type='kvm' id='1'><name>` + vmName + `</name><uuid>` + vmUUID + `</uuid><memory unit='MiB'>16</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features><devices>
<controller type='pci' index='0' model='pcie-root'/>
<controller type='pci' index='1' model='pcie-root-port'><address type='pci' domain='0x0000' bus='0x00' slot='0x01' function='0x0'/></controller>
<controller type='pci' index='2' model='pcie-root-port'><address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x0'/></controller>
<interface type='bridge'><mac address='` + kerneltest.Guest.String() + `'/><source bridge='br0'/><target dev='tap0'/><model type='virtio'/>
<teaming type='persistent'/><alias name='` + guestIF + `'/><address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></interface>
%s</devices></domain>`

// The numbers of libvirt's remote protocol.
const (
	remoteProgram = 0x20008086
	reply         = 1
	message       = 2
	statusOK      = 0
	statusError   = 1

	deviceRemoved      = 15  // an event,
	deviceRemovedEvent = 333 // and its message

	internalError = 1
	noSupport     = 3
	deviceMissing = 99
)

// libvirtd answers for one domain.
type libvirtd struct {
	t      testing.TB
	guest  *guest
	change func() error

	mu       sync.Mutex
	hostdevs map[string]string // XML by alias
	conns    map[*lvConn]bool  // those that want to know of removed devices
}

// newLibvirtd listens at DIR/libvirt. change is called before each change of the domain by the daemon.
func newLibvirtd(t *testing.T, dir string, change func() error, g *guest) *libvirtd {
	d := &libvirtd{t: reporter{t}, change: change, guest: g, hostdevs: map[string]string{}, conns: map[*lvConn]bool{}}
	l, err := net.Listen("unix", filepath.Join(dir, "libvirt"))
	kerneltest.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go (&lvConn{d: d, conn: c}).serve()
		}
	}()
	return d
}

// holds reports whether the domain has a device of that alias, any if it is "".
func (d *libvirtd) holds(alias string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if alias == "" {
		return len(d.hostdevs) > 0
	}
	_, has := d.hostdevs[alias]
	return has
}

// remove has the guest release its VF, takes that out of the domain, and tells of it.
func (d *libvirtd) remove() {
	d.guest.unplug()
	d.mu.Lock()
	defer d.mu.Unlock()
	for alias := range d.hostdevs {
		delete(d.hostdevs, alias)
		for c := range d.conns {
			c.send(message, statusOK, deviceRemovedEvent, 0, xdr{}.u32(deviceRemoved).domain().text(alias))
		}
	}
}

func (d *libvirtd) xml() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all strings.Builder
	for _, dev := range d.hostdevs {
		all.WriteString(dev)
	}
	return fmt.Sprintf(vmXML, all.String())
}

var aliasOf = regexp.MustCompile(`<alias name="([^"]*)"`)

// attach gives the domain a hostdev.
func (d *libvirtd) attach(xml string) {
	m := aliasOf.FindStringSubmatch(xml)
	if m == nil || !strings.Contains(xml, `bus="0x03" slot="0x00" function="0x2"`) {
		d.t.Errorf("attached %s, which is not the VF", xml)
		return
	}
	d.mu.Lock()
	d.hostdevs[m[1]] = strings.Replace(xml, "</hostdev>", "<address type='pci' domain='0x0000' bus='0x02' slot='0x00' function='0x0'/></hostdev>", 1)
	d.mu.Unlock()
	d.guest.plug()
}

// lvConn is a connection of the daemon.
type lvConn struct {
	d    *libvirtd
	conn net.Conn
	mu   sync.Mutex
}

func (c *lvConn) send(kind, status, procedure, serial uint32, body xdr) {
	packet := xdr{}.u32(uint32(28 + len(body))).u32(remoteProgram).u32(1).u32(procedure).u32(kind).u32(serial).u32(status)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.conn.Write(append(packet, body...)) // the daemon may have been killed
}

func (c *lvConn) serve() {
	defer c.conn.Close()
	defer func() {
		c.d.mu.Lock()
		delete(c.d.conns, c)
		c.d.mu.Unlock()
	}()
	for {
		var head [28]byte
		if _, err := io.ReadFull(c.conn, head[:]); err != nil {
			return
		}
		word := func(i int) uint32 { return binary.BigEndian.Uint32(head[4*i:]) }
		body := make([]byte, word(0)-28)
		if _, err := io.ReadFull(c.conn, body); err != nil {
			return
		}
		answer, code, text := c.answer(word(3), xdrReader{&body})
		if text != "" {
			c.send(reply, statusError, word(3), word(5), xdr{}.u32(code).u32(0).u32(1).text(text).u32(2))
		} else {
			c.send(reply, statusOK, word(3), word(5), answer)
		}
	}
}

// answer executes a call. A text is that of an error.
func (c *lvConn) answer(procedure uint32, args xdrReader) (out xdr, code uint32, text string) {
	switch procedure {
	case 1, 2, 317: // open, close, deregister
	case 66: // auth list: none
		return out.u32(1).u32(0), 0, ""
	case 157: // version
		return out.u64(9_000_000), 0, ""
	case 273: // list domains
		return out.u32(1).domain().u32(1), 0, ""
	case 24: // look up by UUID
		return out.domain(), 0, ""
	case 212: // state: running
		return out.u32(1).u32(1), 0, ""
	case 14: // XML
		return out.text(c.d.xml()), 0, ""
	case 16: // info
		return out.u32(1).u64(16 << 10).u64(16 << 10).u32(1).u64(1e9), 0, ""
	case 229: // control info: nothing is under way
		return out.u32(0).u32(0).u64(0), 0, ""
	case 298: // job statistics: none
		return out.u32(0).u32(0), 0, ""
	case 316: // register for an event
		event := args.u32()
		if event == deviceRemoved {
			c.d.mu.Lock()
			c.d.conns[c] = true
			c.d.mu.Unlock()
		}
		return out.u32(event), 0, ""
	case 160: // attach
		args.domain()
		if err := c.d.change(); err != nil {
			return nil, noSupport, err.Error()
		}
		if c.d.guest.nic.end() == nil {
			return nil, internalError, "device not found: device " + vfAddress + " not found: could not access its config"
		}
		c.d.attach(args.text())
	case 392: // detach
		args.domain()
		alias := args.text()
		if err := c.d.change(); err != nil {
			return nil, noSupport, err.Error()
		}
		if !c.d.holds(alias) {
			return nil, deviceMissing, "device not found: no device with alias " + alias
		}
		go c.d.remove()
	default:
		return nil, noSupport, fmt.Sprintf("this libvirtd has no procedure %d", procedure)
	}
	return out, 0, ""
}

// xdr is an encoded argument list.
type xdr []byte

func (x xdr) u32(v uint32) xdr { return binary.BigEndian.AppendUint32(x, v) }
func (x xdr) u64(v uint64) xdr { return binary.BigEndian.AppendUint64(x, v) }
func (x xdr) text(s string) xdr {
	x = append(x.u32(uint32(len(s))), s...)
	return append(x, make([]byte, -len(s)&3)...)
}

// domain appends the domain.
func (x xdr) domain() xdr {
	uuid := [16]byte{6: 0x40, 8: 0x80, 15: 1} // vmUUID
	return append(x.text(vmName), uuid[:]...).u32(1)
}

// xdrReader reads an argument list.
type xdrReader struct{ b *[]byte }

func (x xdrReader) take(n int) []byte {
	n = min(n, len(*x.b))
	out := (*x.b)[:n]
	*x.b = (*x.b)[n:]
	return out
}

func (x xdrReader) u32() (v uint32) {
	for _, b := range x.take(4) {
		v = v<<8 | uint32(b)
	}
	return v
}

func (x xdrReader) text() string {
	n := int(x.u32())
	text := x.take(n)
	x.take(-n & 3)
	return string(text)
}
func (x xdrReader) domain() { x.text(); x.take(20) }
