package vdpa

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sluice/internal/host/sysif"
)

const (
	vhostVDPA   = "vhost_vdpa"
	vhostDriver = "bus/vdpa/drivers/" + vhostVDPA
)

func vdpaDev(name string) string { return "bus/vdpa/devices/" + name }

// vdpaNode is the character device through which a VM uses a vDPA device, "" if there is none.
func vdpaNode(sys sysif.Tree, name string) string {
	for _, entry := range sys.List(vdpaDev(name)) {
		if strings.HasPrefix(entry, "vhost-vdpa-") {
			return "/dev/" + entry
		}
	}
	return ""
}

// bindVHost binds one of our vDPA devices to vhost_vdpa and returns its node. The kernel binds a new device to whichever bus
// driver was loaded first, so virtio_vdpa may have turned it into a network interface of the host.
func bindVHost(sys sysif.Tree, name string) (node string, err error) {
	driver := sys.Target(vdpaDev(name) + "/driver")
	if driver != vhostVDPA {
		if err := sys.Write(vdpaDev(name)+"/driver_override", vhostVDPA); err != nil {
			return "", err
		}
		if err := sysif.Unbind(sys, "vdpa", driver, name); err != nil {
			return "", err
		}
		if err := sys.Write("bus/vdpa/drivers_probe", name); err != nil {
			return "", err
		}
	}
	if node = vdpaNode(sys, name); node == "" {
		return "", fmt.Errorf("the kernel left it with driver %q and without /dev/vhost-vdpa-*: see dmesg", sys.Target(vdpaDev(name)+"/driver"))
	}
	return node, nil
}

// vdpaLink returns the node that the device's symbolic link points to, or "".
func vdpaLink(dir, name string) string {
	to, _ := os.Readlink(filepath.Join(dir, name))
	return to
}

// linkVDPA points the device's symbolic link to the node atomically, since libvirt may open it at any time.
func linkVDPA(dir, name, node string) error {
	if vdpaLink(dir, name) == node {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	next := filepath.Join(dir, "."+name)
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(node, next); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(dir, name))
}

func unlinkVDPA(dir, name string) error {
	if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
