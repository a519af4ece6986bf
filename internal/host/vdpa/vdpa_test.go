package vdpa

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// Messages written out from uapi linux/vdpa.h for a little-endian machine: length and type, two bytes each, and the value, padded
// to four bytes.
const (
	createOnPCI = "\x03\x01\x00\x00" +
		"\x0d\x00\x04\x00sluice-a\x00\x00\x00\x00" + // VDPA_ATTR_DEV_NAME
		"\x08\x00\x01\x00pci\x00" + // VDPA_ATTR_MGMTDEV_BUS_NAME
		"\x11\x00\x02\x000000:03:00.2\x00\x00\x00\x00" + // VDPA_ATTR_MGMTDEV_DEV_NAME
		"\x0a\x00\x0a\x00\x52\x54\x00\x77\x00\x01\x00\x00" + // VDPA_ATTR_DEV_NET_CFG_MACADDR
		"\x06\x00\x0d\x00\xdc\x05\x00\x00" + // VDPA_ATTR_DEV_NET_CFG_MTU
		"\x06\x00\x0c\x00\x02\x00\x00\x00" // VDPA_ATTR_DEV_NET_CFG_MAX_VQP
	createPlain = "\x03\x01\x00\x00" + "\x0d\x00\x04\x00sluice-a\x00\x00\x00\x00" + "\x0a\x00\x02\x00vduse\x00\x00\x00"
	deleteIt    = "\x04\x01\x00\x00" + "\x0d\x00\x04\x00sluice-a\x00\x00\x00\x00"

	manager = "\x01\x01\x00\x00" +
		"\x08\x00\x01\x00pci\x00" + "\x11\x00\x02\x000000:03:00.2\x00\x00\x00\x00" +
		"\x0c\x00\x03\x00\x02\x00\x00\x00\x00\x00\x00\x00" + // VDPA_ATTR_MGMTDEV_SUPPORTED_CLASSES: VIRTIO_ID_NET
		"\x08\x00\x0f\x00\x41\x00\x00\x00" // VDPA_ATTR_DEV_MGMTDEV_MAX_VQS
	blockManager = "\x01\x01\x00\x00" + "\x10\x00\x02\x00vdpasim_blk\x00" + "\x0c\x00\x03\x00\x04\x00\x00\x00\x00\x00\x00\x00"

	device = "\x03\x01\x00\x00" +
		"\x0a\x00\x02\x00vduse\x00\x00\x00" + "\x0d\x00\x04\x00sluice-a\x00\x00\x00\x00" +
		"\x08\x00\x05\x00\x01\x00\x00\x00" // VDPA_ATTR_DEV_ID: VIRTIO_ID_NET
	blockDevice = "\x03\x01\x00\x00" + "\x06\x00\x04\x00b\x00\x00\x00" + "\x08\x00\x05\x00\x02\x00\x00\x00"

	configuration = "\x06\x01\x00\x00" + "\x0d\x00\x04\x00sluice-a\x00\x00\x00\x00" +
		"\x0a\x00\x0a\x00\x52\x54\x00\x77\x00\x01\x00\x00" +
		"\x06\x00\x0d\x00\xdc\x05\x00\x00" + "\x06\x00\x0c\x00\x02\x00\x00\x00"
	negotiated = "\x0c\x00\x0e\x00\x00\x00\x00\x00\x01\x00\x00\x00" // VDPA_ATTR_DEV_NEGOTIATED_FEATURES
)

func TestVDPARequests(t *testing.T) {
	want := model.VDPAWant{Name: "sluice-a", MAC: kerneltest.MAC("52:54:00:77:00:01"), MTU: 1500, Pairs: 2}
	for text, r := range map[string]*rtnl.Request{
		createOnPCI: vdpaCreate(0x20, "pci/0000:03:00.2", want),
		createPlain: vdpaCreate(0x20, "vduse", model.VDPAWant{Name: "sluice-a"}),
		deleteIt:    vdpaDelete(0x20, "sluice-a"),
	} {
		if got := r.Message().Data; !bytes.Equal(got, []byte(text)) {
			t.Errorf("sends %q\nwant  %q", got, text)
		}
	}
}

func TestVDPAAnswers(t *testing.T) {
	msg := func(s string) rtnl.Message { return rtnl.Message{Data: []byte(s)} }
	m, ok := decodeVDPAManager(msg(manager))
	if want := (model.VDPAManager{Name: "pci/0000:03:00.2", Net: true, MaxVQs: 65}); !ok || m != want {
		t.Errorf("%+v, want %+v", m, want)
	}
	if m, ok = decodeVDPAManager(msg(blockManager)); !ok || m != (model.VDPAManager{Name: "vdpasim_blk"}) {
		t.Errorf("%+v, want the name alone", m)
	}
	d, ok := decodeVDPADevice(msg(device))
	if want := (model.VDPADevice{Name: "sluice-a", Manager: "vduse"}); !ok || d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
	if d, ok = decodeVDPADevice(msg(blockDevice)); ok {
		t.Errorf("takes a disk for a NIC: %+v", d)
	}
	for text, inUse := range map[string]model.Tri{configuration: model.No, configuration + negotiated: model.Yes} {
		want := model.VDPADevice{MAC: kerneltest.MAC("52:54:00:77:00:01"), MTU: 1500, Pairs: 2, InUse: inUse}
		if d, err := decodeVDPAConfig(msg(text)); err != nil || d != want {
			t.Errorf("%+v, %v, want %+v", d, err, want)
		}
	}
	for n := range len(configuration) { // truncated anywhere
		decodeVDPAManager(msg(manager[:min(n, len(manager))]))
		decodeVDPADevice(msg(device[:min(n, len(device))]))
		if _, err := decodeVDPAConfig(msg(configuration[:n])); err != nil {
			t.Error(err)
		}
	}
}

func TestVDPACandidates(t *testing.T) {
	managers := []model.VDPAManager{
		{Name: "pci/0000:03:00.2", Net: true},
		{Name: "pci/0000:03:00.3", Net: true},
		{Name: "pci/0000:03:00.4"},
		{Name: "pci/0000:04:00.2", Net: true},
		{Name: "vduse", Net: true},
	}
	devices := []model.VDPADevice{{Manager: "pci/0000:03:00.2"}, {Manager: "vduse"}}
	for pattern, want := range map[string]string{
		"pci/0000:03:00.*": "pci/0000:03:00.3 pci/0000:03:00.2", // the one without devices first
		"vduse":            "vduse",
		"vdpasim_net":      "",
		"[":                "",
	} {
		if got := strings.Join(vdpaCandidates(pattern, managers, devices), " "); got != want {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}

// vdpaKernel simulates driver binding in a kernel with one vDPA device and both drivers of the bus.
func vdpaKernel() *kerneltest.Files {
	m := kerneltest.ParseTree(`
bus/vdpa/drivers_probe = write-only
bus/vdpa/drivers/vhost_vdpa/unbind = write-only
bus/vdpa/drivers/virtio_vdpa/unbind = write-only
bus/vdpa/devices/sluice-a/driver_override = (null)
bus/vdpa/devices/sluice-a/driver -> ../../../bus/vdpa/drivers/virtio_vdpa
`)
	const dev = "/bus/vdpa/devices/sluice-a"
	m.OnWrite = func(path, data string) error {
		switch {
		case strings.HasSuffix(path, "/unbind"):
			delete(m.Content, dev+"/driver")
		case strings.HasSuffix(path, "/drivers_probe"):
			m.Content[dev+"/driver"] = "-> ../../../bus/vdpa/drivers/" + m.Content[dev+"/driver_override"]
			if m.Content[dev+"/driver_override"] == vhostVDPA {
				m.Content[dev+"/vhost-vdpa-3/."] = ""
			}
		default:
			m.Content[path] = data
		}
		return nil
	}
	return m
}

func TestBindVHost(t *testing.T) {
	m := vdpaKernel()
	for range 2 {
		if node, err := bindVHost(m.Tree(), "sluice-a"); err != nil || node != "/dev/vhost-vdpa-3" {
			t.Fatalf("node %q, %v", node, err)
		}
	}
	if len(m.Writes) != 3 {
		t.Errorf("wrote %q; binding again writes nothing", m.Writes)
	}
	m = vdpaKernel()
	m.OnWrite = func(string, string) error { return nil } // a driver that refuses the device
	if node, err := bindVHost(m.Tree(), "sluice-a"); err == nil || !strings.Contains(err.Error(), "virtio_vdpa") {
		t.Errorf("node %q, %v: want an error that names the driver", node, err)
	}
}

func TestVDPALink(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vdpa")
	for _, node := range []string{"/dev/vhost-vdpa-0", "/dev/vhost-vdpa-0", "/dev/vhost-vdpa-4"} {
		kerneltest.Must(t, linkVDPA(dir, "sluice-a", node))
		if to, err := os.Readlink(filepath.Join(dir, "sluice-a")); err != nil || to != node {
			t.Errorf("leads to %q, %v; want %q", to, err, node)
		}
	}
	for range 2 {
		kerneltest.Must(t, unlinkVDPA(dir, "sluice-a"))
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestNoVDPA checks that without vDPA in the kernel there is nothing to list or delete, and that errors name what is missing.
func TestNoVDPA(t *testing.T) {
	h := newHost(t)
	ours := model.VDPAName("0a1b2c3d-0000-4000-8000-000000000001", "vpf0", 0)
	if _, err := sysif.GenericFamily(kerneltest.Soon(t), h.k.Generic, vdpaFamily); !errors.Is(err, unix.ENOENT) {
		t.Log("this kernel has vDPA:", err)
		return
	}
	managers, err := h.VDPAManagers(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	devices, err := h.VDPADevices(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	if len(managers)+len(devices) > 0 {
		t.Errorf("found %v, %v", managers, devices)
	}
	h.dir = t.TempDir()
	kerneltest.Must(t, h.DeleteVDPA(kerneltest.Soon(t), ours))
	_, err = h.CreateVDPA(kerneltest.Soon(t), model.VDPAWant{Name: ours, Manager: "vduse"})
	if !errors.Is(err, model.ErrPermanent) || !strings.Contains(err.Error(), "modprobe vhost_vdpa") {
		t.Errorf("error %v; want one that says what to load", err)
	}
	err = h.makeVDPA(kerneltest.Soon(t), model.VDPAWant{Name: ours, Manager: "vduse"}, nil)
	if !errors.Is(err, model.ErrPermanent) || !strings.Contains(err.Error(), "mlx5_vdpa") {
		t.Errorf("error %v; want one that says what to load", err)
	}
	for _, name := range []string{"vdpa0", "sluice-/../x", ours + "/x"} {
		if err := h.DeleteVDPA(kerneltest.Soon(t), name); !errors.Is(err, model.ErrPermanent) {
			t.Errorf("deletes %s: %v", name, err)
		}
	}
}

func TestVDPANames(t *testing.T) {
	const vm = model.VMID("0a1b2c3d-0000-4000-8000-000000000001")
	names := []string{model.VDPAName(vm, "vpf0", -1), model.VDPAName(vm, "vpf0", 12)}
	if want := []string{"sluice-" + string(vm) + "-vpf0-pf", "sluice-" + string(vm) + "-vpf0-vf12"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	for name, want := range map[string]model.VMID{
		names[0]: vm, names[1]: vm, "vdpa0": "", "sluice-a": "", "sluice-" + string(vm): "",
		"sluice-" + string(vm) + "-a/b": "",
	} {
		if got, ours := model.VDPAOurs(name); got != want || ours != (want != "") {
			t.Errorf("%s is of VM %q, %t; want %q", name, got, ours, want)
		}
	}
}
