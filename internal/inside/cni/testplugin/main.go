// Command testplugin is sluice-cni in a simulated guest, for the tests of package cni. It is not the test binary itself because that
// would start slowly under the race detector.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing/fstest"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"

	"sluice/internal/inside/cni"
)

func main() {
	dir := os.Getenv("SLUICE_TEST_CNI_STATE")
	p := &cni.Plugin{
		Sys: guest(), Host: &cni.Client{Path: filepath.Join(dir, "socket")}, Dir: filepath.Join(dir, "state"),
		BootID: os.Getenv("SLUICE_TEST_CNI_BOOT"),
	}
	skel.PluginMainFuncs(p.Funcs(), version.All, "sluice-cni under test")
}

const pfMAC = "52:54:00:ab:00:00"

// sysfs simulates the sysfs of a guest with a PF, two VFs (unless SLUICE_TEST_CNI_NO_VFS is set), and a third VF without a driver. The
// VFs' interfaces come from this network namespace: an interface whose queue length is 9000 + n belongs to the VF with PCI function n.
type sysfs struct{ fstest.MapFS }

func guest() fs.FS {
	const pf = "bus/pci/devices/0000:01:00.0"
	m := fstest.MapFS{
		pf + "/sriov_totalvfs":                                    {Data: []byte("7\n")},
		pf + "/sriov_numvfs":                                      {Data: []byte("2\n")},
		pf + "/virtio1/net/enp1s0/address":                        {Data: []byte(pfMAC + "\n")},
		"bus/pci/devices/0000:03:00.0/virtio9/net/enp3s0/address": {Data: []byte("52:54:00:ab:00:99\n")},
	}
	m["bus/pci/devices/0000:01:00.3/physfn"] = link("../0000:01:00.0")
	m[pf+"/virtfn2"] = link("../0000:01:00.3")
	for i := range 2 {
		if os.Getenv("SLUICE_TEST_CNI_NO_VFS") != "" {
			break
		}
		vf := fmt.Sprintf("0000:01:00.%d", i+1)
		dir := "bus/pci/devices/" + vf
		m[fmt.Sprintf("%s/virtfn%d", pf, i)] = link("../" + vf)
		m[dir+"/physfn"] = link("../0000:01:00.0")
		m[dir+"/driver"] = link("../../../bus/pci/drivers/virtio-pci")
		m[fmt.Sprintf("%s/virtio%d/status", dir, i+2)] = &fstest.MapFile{Data: []byte("0x0f\n")}
	}
	return sysfs{m}
}

func link(to string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
}

func (s sysfs) ReadDir(name string) ([]fs.DirEntry, error) {
	var function int
	_, err := s.Stat(filepath.Dir(name))
	if n, _ := fmt.Sscanf(name, "bus/pci/devices/0000:01:00.%d/", &function); err != nil || n != 1 || function == 0 ||
		filepath.Base(name) != "net" {
		return s.MapFS.ReadDir(name)
	}
	var out []fs.DirEntry
	all, _ := os.ReadDir("/sys/class/net")
	for _, e := range all {
		if queue, err := os.ReadFile("/sys/class/net/" + e.Name() + "/tx_queue_len"); err == nil &&
			strings.TrimSpace(string(queue)) == strconv.Itoa(9000+function) {
			out = append(out, e)
		}
	}
	return out, nil
}

func (s sysfs) ReadFile(name string) ([]byte, error) {
	if strings.HasPrefix(name, "bus/pci/devices/0000:01:00.") && filepath.Base(name) == "address" && !strings.Contains(name, "enp1s0") {
		return os.ReadFile("/sys/class/net/" + filepath.Base(filepath.Dir(name)) + "/address")
	}
	return s.MapFS.ReadFile(name)
}
