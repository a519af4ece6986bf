package wholetest

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// The NIC has one PF, pf0, whose wire is wire0, and up to one VF. The guest has the VF's end of the veth pair, vf0.
const (
	pfAddress = "0000:03:00.0"
	vfAddress = "0000:03:00.2"
	pfPort    = "p0"
	vfPort    = "pf0vf0"
	vfNetdev  = "vf0"
)

// NIC is what the NIC's driver tells: the names of its ports by ifindex, and the settings of its VFs by netlink attribute.
type NIC struct {
	Ports map[int]string
	VFs   []map[uint16][]byte
}

// reporter fails a test from any goroutine: where t.FailNow may not be called, it says what is wrong and goes on.
type reporter struct{ testing.TB }

// Fatal implements testing.TB.
func (r reporter) Fatal(args ...any) { r.Helper(); r.Error(args...) }

// Fatalf implements testing.TB.
func (r reporter) Fatalf(format string, args ...any) { r.Helper(); r.Errorf(format, args...) }

// nic is the NIC of the site, which outlives the daemon.
type nic struct {
	t   testing.TB
	sys string // the root of the sysfs that the daemon sees

	mu     sync.Mutex
	state  NIC
	rep    string // name of the representor, "": there is no VF
	made   int    // how many there were
	pair   *packet
	change func() error
}

// newNIC makes the NIC with a VF that no driver is bound to. change is called before each change of the kernel's state by the daemon.
func newNIC(t *testing.T, dir string, change func() error) *nic {
	n := &nic{t: reporter{t}, sys: filepath.Join(dir, "sys"), change: change}
	kerneltest.IP(t, "link add pf0 type veth peer name wire0")
	t.Cleanup(func() { kerneltest.IP(t, "link del pf0") })
	for _, dev := range []string{"pf0", "wire0"} {
		kerneltest.Quiet(t, dev)
		kerneltest.IP(t, "link set "+dev+" up")
	}
	pf, err := net.InterfaceByName("pf0")
	kerneltest.Must(t, err)
	n.state.Ports = map[int]string{pf.Index: pfPort}
	for name, text := range map[string]string{
		"class/net/pf0/phys_port_name": pfPort, "class/net/pf0/dev_port": "0", "class/net/pf0/address": pf.HardwareAddr.String(),
		"class/net/pf0/carrier": "1", "class/net/pf0/speed": "10000", "class/net/pf0/ifindex": strconv.Itoa(pf.Index),
		"bus/pci/devices/" + pfAddress + "/numa_node": "-1", "bus/pci/devices/" + pfAddress + "/sriov_totalvfs": "8",
		"bus/pci/devices/" + pfAddress + "/sriov_numvfs": "0", "bus/pci/devices/" + pfAddress + "/device": "0x101d",
		"bus/pci/drivers/mlx5_core/unbind": "", "bus/pci/drivers/vfio-pci/unbind": "", "bus/pci/drivers_probe": "",
	} {
		n.file(name, text)
	}
	n.link("class/net/pf0/device", "../../../bus/pci/devices/"+pfAddress)
	n.link("bus/pci/devices/"+pfAddress+"/driver", "../../drivers/mlx5_core")
	for _, empty := range []string{"devices/virtual/net", "kernel/irq", "fs/bpf"} {
		kerneltest.Must(t, os.MkdirAll(filepath.Join(n.sys, empty), 0o755))
	}
	n.mount("bpf", "fs/bpf", "bpf", 0, "mode=0700") // so that pins outlive the daemon
	for _, real := range []string{"devices/system", "kernel/btf"} {
		kerneltest.Must(t, os.MkdirAll(filepath.Join(n.sys, real), 0o755))
		n.mount(filepath.Join("/sys", real), real, "", unix.MS_BIND, "")
	}
	n.probes()
	n.serve(filepath.Join(dir, "nic"))
	n.create(t)
	t.Cleanup(func() {
		if n.rep != "" {
			kerneltest.IP(t, "link del "+n.rep)
			n.pair.close()
		}
	})
	return n
}

func (n *nic) mount(what, at, kind string, flags uintptr, data string) {
	at = filepath.Join(n.sys, at)
	kerneltest.Must(n.t, unix.Mount(what, at, kind, flags, data))
	n.t.Cleanup(func() { kerneltest.Must(n.t, unix.Unmount(at, unix.MNT_DETACH)) })
}

func (n *nic) file(name, text string) {
	n.t.Helper()
	path := filepath.Join(n.sys, name)
	kerneltest.Must(n.t, os.MkdirAll(filepath.Dir(path), 0o755))
	kerneltest.Must(n.t, os.WriteFile(path, []byte(text+"\n"), 0o644))
}

func (n *nic) link(name, target string) {
	n.t.Helper()
	path := filepath.Join(n.sys, name)
	kerneltest.Must(n.t, os.MkdirAll(filepath.Dir(path), 0o755))
	kerneltest.Must(n.t, os.Symlink(target, path))
}

func (n *nic) remove(name string) { kerneltest.Must(n.t, os.RemoveAll(filepath.Join(n.sys, name))) }

func (n *nic) read(name string) string {
	text, err := os.ReadFile(filepath.Join(n.sys, name))
	kerneltest.Must(n.t, err)
	return strings.TrimSpace(string(text))
}

// create is what `echo 1 > sriov_numvfs` does. The driver tells of the representor's port as soon as there is one.
func (n *nic) create(t *testing.T) {
	const name = "rep0"
	n.mu.Lock()
	defer n.mu.Unlock()
	n.made++
	index := 1000 + n.made
	n.state.Ports[index] = vfPort
	kerneltest.IP(t, fmt.Sprintf("link add %s index %d type veth peer name %s", name, index, vfNetdev))
	for _, dev := range []string{name, vfNetdev} {
		kerneltest.Quiet(t, dev)
	}
	n.rep, n.pair = name, newPacket(t, vfNetdev)
	n.state.VFs = []map[uint16][]byte{{
		unix.IFLA_VF_MAC: make([]byte, 32), unix.IFLA_VF_VLAN: sysif.Words(0, 0), unix.IFLA_VF_RATE: sysif.Words(0, 0),
		unix.IFLA_VF_SPOOFCHK: sysif.Words(0), unix.IFLA_VF_TRUST: sysif.Words(0),
	}}
	n.file("class/net/"+name+"/phys_port_name", vfPort)
	n.link("class/net/"+name+"/device", "../../../bus/pci/devices/"+pfAddress)
	vf := "bus/pci/devices/" + vfAddress
	n.file(vf+"/driver_override", "")
	n.file(vf+"/enable", "0")
	n.link(vf+"/iommu_group", "../../../../kernel/iommu_groups/7")
	n.link("bus/pci/devices/"+pfAddress+"/virtfn0", "../"+vfAddress)
	n.file("bus/pci/devices/"+pfAddress+"/sriov_numvfs", "1")
}

// vanish is what `echo 0 > sriov_numvfs` does when no guest has the VF any more.
func (n *nic) vanish() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.file("bus/pci/devices/"+pfAddress+"/sriov_numvfs", "0")
	n.remove("bus/pci/devices/" + pfAddress + "/virtfn0")
	n.remove("bus/pci/devices/" + vfAddress)
	n.remove("class/net/" + n.rep)
	n.state.VFs = nil
	maps.DeleteFunc(n.state.Ports, func(_ int, port string) bool { return port == vfPort })
	kerneltest.IP(n.t, "link del "+n.rep)
	n.pair.close()
	n.rep, n.pair = "", nil
}

// rename renames the representor.
func (n *nic) rename(to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	kerneltest.IP(n.t, "link set "+n.rep+" name "+to)
	kerneltest.Must(n.t, os.Rename(filepath.Join(n.sys, "class/net", n.rep), filepath.Join(n.sys, "class/net", to)))
	n.rep = to
}

// representor returns the name of the representor.
func (n *nic) representor() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rep
}

// end returns the guest's end of the VF.
func (n *nic) end() *packet {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pair
}

// mac returns the MAC of the VF, zero if there is none.
func (n *nic) mac() (m model.MAC) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.state.VFs) > 0 {
		copy(m[:], n.state.VFs[0][unix.IFLA_VF_MAC])
	}
	return m
}

// driver returns the driver that the VF is bound to, "" for none.
func (n *nic) driver() string {
	to, err := os.Readlink(filepath.Join(n.sys, "bus/pci/devices", vfAddress, "driver"))
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}

// vectors are the interrupts that a guest's driver requests.
const vectors = 2

// open shows that the guest's driver has opened the VF, and that it has not.
func (n *nic) open(is bool) {
	for i := range vectors {
		irq := strconv.Itoa(200 + i)
		msi, shown := "bus/pci/devices/"+vfAddress+"/msi_irqs/"+irq, "kernel/irq/"+irq
		if is {
			n.file(shown+"/actions", fmt.Sprintf("vfio-msix[%d](%s)", i, vfAddress))
			n.file(shown+"/per_cpu_count", "1,0")
			n.file(msi, "msix")
		} else {
			n.remove(msi)
			n.remove(shown)
		}
	}
}

// probes binds VFs without a driver to that of their driver_override when drivers_probe is opened, before the opening returns: it is
// written to for nothing else.
func (n *nic) probes() {
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY)
	kerneltest.Must(n.t, err)
	kerneltest.Must(n.t, unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN_PERM, unix.AT_FDCWD,
		filepath.Join(n.sys, "bus/pci/drivers_probe")))
	file := os.NewFile(uintptr(fd), "fanotify")
	ended := make(chan struct{})
	n.t.Cleanup(func() { _ = file.Close(); <-ended })
	go func() {
		defer close(ended)
		var event unix.FanotifyEventMetadata
		buf := (*[unsafe.Sizeof(event)]byte)(unsafe.Pointer(&event))
		for {
			if _, err := file.Read(buf[:]); err != nil {
				return
			}
			n.probe()
			_, err := file.Write(sysif.Words(uint32(event.Fd), unix.FAN_ALLOW))
			kerneltest.Must(n.t, errors.Join(err, unix.Close(int(event.Fd))))
		}
	}()
}

// probe binds the VF if its driver_override says so.
func (n *nic) probe() {
	n.mu.Lock()
	defer n.mu.Unlock()
	to := n.read("bus/pci/devices/" + vfAddress + "/driver_override")
	if _, err := os.Stat(filepath.Join(n.sys, "bus/pci/drivers", to)); err == nil && to != "" && n.driver() == "" {
		n.link("bus/pci/devices/"+vfAddress+"/driver", "../../drivers/"+to)
	}
}

// serve answers the daemon's process.
func (n *nic) serve(path string) {
	l, err := net.Listen("unix", path)
	kerneltest.Must(n.t, err)
	n.t.Cleanup(func() { _ = l.Close() })
	server := rpc.NewServer()
	kerneltest.Must(n.t, server.RegisterName("NIC", &Server{n}))
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go server.ServeConn(conn)
		}
	}()
}

// Server is the NIC as its driver in the daemon's process sees it.
type Server struct{ nic *nic }

// Read returns the NIC's state.
func (s *Server) Read(_ struct{}, out *NIC) error {
	s.nic.mu.Lock()
	defer s.nic.mu.Unlock()
	out.Ports = maps.Clone(s.nic.state.Ports)
	for _, vf := range s.nic.state.VFs {
		out.VFs = append(out.VFs, maps.Clone(vf))
	}
	return nil
}

// Change is called before each change of the kernel's state by a message of that type.
func (s *Server) Change(uint16, *struct{}) error { return s.nic.change() }

// Set changes a VF by an IFLA_VF_INFO.
func (s *Server) Set(info []byte, refused *unix.Errno) error {
	s.nic.mu.Lock()
	defer s.nic.mu.Unlock()
	for attr, value := range rtnl.Attrs(info) {
		if i := int(rtnl.U32(value)); i < len(s.nic.state.VFs) {
			s.nic.state.VFs[i][attr] = slices.Clone(value[4:])
		} else {
			*refused = unix.EINVAL
		}
	}
	return nil
}
