package kerneltest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const simulatedBus = "/sys/bus/netdevsim/"

// SimulatedNIC is a PF that the kernel simulates (netdevsim): its VFs have settings, and in mode switchdev rate objects and representors,
// but it carries nothing, and it is no PCI device.
type SimulatedNIC struct {
	Device string // as devlink names it on bus netdevsim, and sysfs
	PF     string // its interface, whose port is p1, while the VFs are of PF 0
}

// NewSimulatedNIC makes one for the time of a test. No kernel of Debian has netdevsim: scripts/netdevsim builds and boots one.
func NewSimulatedNIC(t *testing.T) SimulatedNIC {
	t.Helper()
	if _, err := os.Stat(simulatedBus); err != nil {
		Lacks(t, "netdevsim")
		t.SkipNow()
	}
	id := strconv.Itoa(os.Getpid())
	Must(t, os.WriteFile(simulatedBus+"new_device", []byte(id+" 1"), 0))
	t.Cleanup(func() { Must(t, os.WriteFile(simulatedBus+"del_device", []byte(id), 0)) })
	n := SimulatedNIC{Device: "netdevsim" + id}
	n.PF = n.Port("p1")
	return n
}

// Port returns the interface of a port, such as pf0vf3, "" if there is none.
func (n SimulatedNIC) Port(name string) string {
	files, _ := filepath.Glob(simulatedBus + "devices/" + n.Device + "/net/*/phys_port_name")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(text)) == name {
			return filepath.Base(filepath.Dir(file))
		}
	}
	return ""
}

// SetVFs sets the number of VFs.
func (n SimulatedNIC) SetVFs(t testing.TB, count int) {
	t.Helper()
	Must(t, os.WriteFile(simulatedBus+"devices/"+n.Device+"/sriov_numvfs", fmt.Append(nil, count), 0))
}

// Switchdev sets the mode of the embedded switch to switchdev.
func (n SimulatedNIC) Switchdev(t testing.TB) {
	t.Helper()
	if out, err := exec.Command("devlink", "dev", "eswitch", "set", "netdevsim/"+n.Device, "mode", "switchdev").CombinedOutput(); err != nil {
		t.Fatalf("devlink: %v\n%s", err, out)
	}
}
