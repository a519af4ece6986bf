//go:build lab

package hwtest

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/host/kernel"
	"sluice/internal/model"
)

// These tests need no PF, but VDUSE in the kernel and, in SLUICE_TEST_VDUSE, the path of the lab/vduse command.

const vdpaVM = model.VMID("0a1b2c3d-0000-4000-8000-000000000001")

func vdpaHost(t *testing.T) (h *kernel.Host, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "vdpa")
	h, err := kernel.New(kernel.Options{VDPA: dir})
	must(t, err)
	t.Cleanup(func() { must(t, h.Close()) })
	return h, dir
}

func shell(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("sh", "-ec", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// vduse runs a NIC in user space until the test ends. Its tap is in another network namespace, so that the other end can be in
// this one.
func vduse(t *testing.T, name, mac, tap, netns string) {
	t.Helper()
	cmd := exec.Command("ip", "netns", "exec", netns, os.Getenv("SLUICE_TEST_VDUSE"), name, mac, tap)
	out, err := os.Create(filepath.Join(t.TempDir(), "vduse.log"))
	must(t, err)
	cmd.Stdout, cmd.Stderr = out, out
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Error("vduse:", err)
		}
		text, _ := os.ReadFile(out.Name())
		t.Logf("%s", text)
	})
	eventually(t, "the VDUSE device", func() bool {
		text, _ := os.ReadFile(out.Name())
		return strings.Contains(string(text), "ready")
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for", what)
		}
	}
}

func findVDPA(t *testing.T, h *kernel.Host, name string) (model.VDPADevice, bool) {
	t.Helper()
	all, err := h.VDPADevices(t.Context())
	must(t, err)
	for _, d := range all {
		if d.Name == name {
			return d, true
		}
	}
	return model.VDPADevice{}, false
}

// TestVDPA creates a device on the vDPA bus, finds it, binds it to both drivers of the bus in turn, and removes it.
func TestVDPA(t *testing.T) {
	h, dir := vdpaHost(t)
	name := model.VDPAName(vdpaVM, "vpf0", 0)
	mac, err := model.ParseMAC("52:54:00:77:00:01")
	must(t, err)
	want := model.VDPAWant{Name: name, Manager: "vduse", MAC: mac}
	shell(t, "modprobe vduse")
	if _, err := os.Stat("/sys/bus/vdpa/drivers/vhost_vdpa"); err != nil {
		if _, err := h.CreateVDPA(t.Context(), want); !errors.Is(err, model.ErrPermanent) ||
			!strings.Contains(err.Error(), "modprobe vhost_vdpa") {
			t.Errorf("without vhost_vdpa: %v", err)
		}
	}
	shell(t, "modprobe virtio_vdpa; modprobe vhost_vdpa; ip netns add vdpa0")
	t.Cleanup(func() { shell(t, "ip netns del vdpa0") })
	vduse(t, name, mac.String(), "vdpatap0", "vdpa0")
	t.Cleanup(func() { must(t, h.DeleteVDPA(context.Background(), name)) }) // before vduse ends, which must answer during the deletion
	managers, err := h.VDPAManagers(t.Context())
	must(t, err)
	if len(managers) != 1 || managers[0].Name != "vduse" || !managers[0].Net {
		t.Fatalf("management devices %+v", managers)
	}

	other := want
	other.MAC[5]++ // VDUSE sets no MAC: the device has the one that its process gave it
	if _, err := h.CreateVDPA(t.Context(), other); !errors.Is(err, model.ErrPermanent) || !strings.Contains(err.Error(), mac.String()) {
		t.Errorf("with another MAC: %v", err)
	}
	if d, ok := findVDPA(t, h, name); ok {
		t.Errorf("left behind: %+v", d)
	}
	none := want
	none.Manager = "pci/*"
	if _, err := h.CreateVDPA(t.Context(), none); !errors.Is(err, model.ErrPermanent) {
		t.Errorf("without a management device: %v", err)
	}

	made, err := h.CreateVDPA(t.Context(), want)
	must(t, err)
	t.Logf("%+v", made)
	if made.Name != name || made.Manager != "vduse" || made.MAC != mac || made.Driver != "vhost_vdpa" || !made.Linked ||
		made.InUse != model.No {
		t.Errorf("made %+v", made)
	}
	node, err := os.Stat(filepath.Join(dir, name)) // follows the link
	if err != nil || node.Mode()&os.ModeCharDevice == 0 {
		t.Errorf("the link leads to %v, %v", node, err)
	}
	t.Log(shell(t, "ls -l "+dir+" /dev/vhost-vdpa*; ls /sys/bus/vdpa/devices/"+name))
	if again, err := h.CreateVDPA(t.Context(), want); err != nil || again != made {
		t.Errorf("made again: %+v, %v", again, err)
	}
	inHost(t, h, name, mac)
	if back, err := h.CreateVDPA(t.Context(), want); err != nil || back.Driver != "vhost_vdpa" || back.Node == "" {
		t.Errorf("taken back from the host: %+v, %v", back, err)
	}

	for range 2 {
		must(t, h.DeleteVDPA(t.Context(), name))
	}
	if d, ok := findVDPA(t, h, name); ok {
		t.Errorf("left behind: %+v", d)
	}
	if _, err := os.Lstat(filepath.Join(dir, name)); !os.IsNotExist(err) {
		t.Errorf("the link is left behind: %v", err)
	}
}

// inHost binds the device to virtio_vdpa, which creates an interface of the host, and sends through it.
func inHost(t *testing.T, h *kernel.Host, name string, mac model.MAC) {
	t.Helper()
	dev := "/sys/bus/vdpa/devices/" + name
	shell(t, "echo virtio_vdpa >"+dev+"/driver_override; echo "+name+" >"+dev+"/driver/unbind; echo "+name+" >/sys/bus/vdpa/drivers_probe")
	var ifname string
	eventually(t, "an interface with its MAC", func() bool {
		all, err := net.Interfaces()
		must(t, err)
		for _, i := range all {
			if i.HardwareAddr.String() == mac.String() {
				ifname = i.Name
			}
		}
		return ifname != ""
	})
	shell(t, "ip netns exec vdpa0 ip addr add 10.77.0.1/24 dev vdpatap0; ip netns exec vdpa0 ip link set vdpatap0 up")
	shell(t, "ip addr add 10.77.0.2/24 dev "+ifname+"; ip link set "+ifname+" up")
	t.Log(shell(t, "ping -c 3 -W 20 10.77.0.1; ip -s link show "+ifname))
	d, _ := findVDPA(t, h, name)
	t.Logf("%+v", d)
	if d.Driver != "virtio_vdpa" || d.InUse != model.Yes || d.Node != "" {
		t.Errorf("as an interface of the host: %+v", d)
	}
	if err := h.DeleteVDPA(t.Context(), name); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("deletes a device in use: %v", err)
	}
}
