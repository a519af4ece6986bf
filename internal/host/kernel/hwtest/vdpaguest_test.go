//go:build lab

package hwtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/host/kernel"
	"sluice/internal/host/libvirt"
	"sluice/internal/model"
)

// TestGuestOnVDPA boots a VM, SLUICE_TEST_VM, with a virtual PF whose functions are vDPA devices, and sends through a virtual VF.
func TestGuestOnVDPA(t *testing.T) {
	vm := os.Getenv("SLUICE_TEST_VM")
	h, err := kernel.New(kernel.Options{}) // libvirt expects the default directory
	must(t, err)
	t.Cleanup(func() { must(t, h.Close()) })
	virt, err := libvirt.Open(t.Context(), libvirt.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, virt.Close()) })

	shell(t, "modprobe -a vduse vhost_vdpa; ip netns add vdpa1")
	t.Cleanup(func() { shell(t, "ip netns del vdpa1") })
	shell(t, "virsh destroy "+vm+" || true")
	// VDUSE needs the guest's memory to be shared.
	file := filepath.Join(t.TempDir(), "vm.xml")
	shell(t, "virsh dumpxml --inactive "+vm+" | sed \"s,<os>,<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>&,\" >"+file+"; virsh define "+file)

	p := &model.VirtualPF{
		VMName: vm, Name: "vpf0", Model: model.VPFVirtio, Backend: model.BackendVDPA, Network: "vduse",
		VFs: make([]model.VirtualVF, 2),
	}
	must(t, virt.DefineVPF(t.Context(), p))
	t.Cleanup(func() { must(t, virt.UndefineVPF(context.Background(), p.VM, p.Name)) })
	if out, err := exec.Command("virsh", "start", vm).CombinedOutput(); err == nil || !strings.Contains(string(out), model.VDPADir) {
		t.Errorf("starts without its devices: %v, %s", err, out)
	}
	macs := []model.MAC{p.MAC, p.VFs[0].MAC, p.VFs[1].MAC}
	name := func(i int) string { return model.VDPAName(p.VM, p.Name, i-1) }
	for i, mac := range macs {
		vduse(t, name(i), mac.String(), fmt.Sprint("vdpatap", i), "vdpa1")
		t.Cleanup(func() { must(t, h.DeleteVDPA(context.Background(), name(i))) })
		d, err := h.CreateVDPA(t.Context(), model.VDPAWant{Name: name(i), Manager: "vduse", MAC: mac})
		must(t, err)
		t.Logf("%+v", d)
	}
	in := "ip netns exec vdpa1 "
	shell(t, in+"ip addr add 10.78.0.1/24 dev vdpatap1; "+in+"ip link set vdpatap1 up")

	t.Log(shell(t, "virsh start "+vm))
	t.Cleanup(func() { shell(t, "virsh destroy "+vm+" || true") })
	eventuallyWithin(t, 5*time.Minute, "the guest's agent", func() bool {
		return exec.Command("virsh", "qemu-agent-command", vm, `{"execute":"guest-ping"}`).Run() == nil
	})
	problems, err := virt.CheckVPF(t.Context(), p)
	must(t, err)
	if len(problems) > 0 {
		t.Errorf("QEMU did not make of it what was defined: %+v", problems)
	}
	t.Log(guestRun(t, vm, "ip -br link; ls -d /sys/bus/pci/devices/*/sriov_totalvfs; cat /sys/bus/pci/devices/*/sriov_totalvfs"))
	t.Log(guestRun(t, vm, `for f in /sys/bus/pci/devices/*/sriov_numvfs; do echo 2 >$f; cat $f; done; sleep 2; ip -br link`))
	t.Log(guestRun(t, vm, `n=$(ip -br link | grep -i `+macs[1].String()+` | cut -d" " -f1); ip addr add 10.78.0.2/24 dev $n; ip link set $n up
		readlink -f /sys/class/net/$n/device/../physfn; ping -c 3 -W 20 10.78.0.1; ip -s link show $n`))
	for i := range macs {
		d, _ := findVDPA(t, h, name(i))
		t.Logf("%+v", d)
		if d.InUse != model.Yes {
			t.Errorf("while the guest has it: %+v", d)
		}
		if err := h.DeleteVDPA(t.Context(), name(i)); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("deletes a device in use: %v", err)
		}
	}
	if err := virt.SetLink(t.Context(), p.VM, p.VFAlias(0), false); err == nil {
		t.Error("libvirt changes the link of a vDPA device by now: let virtual VFs on vDPA have link states")
	}
	shell(t, "virsh destroy "+vm)
	for i := range macs {
		if d, _ := findVDPA(t, h, name(i)); d.InUse != model.No || !d.Linked {
			t.Errorf("after the VM: %+v", d)
		}
	}
}

func eventuallyWithin(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for", what)
		}
	}
}

// guestRun runs a script in the guest through its agent and returns its output; a failing script ends the test.
func guestRun(t *testing.T, vm, script string) string {
	t.Helper()
	ask := func(command string, args, out any) {
		t.Helper()
		req, err := json.Marshal(map[string]any{"execute": command, "arguments": args})
		must(t, err)
		text, err := exec.Command("virsh", "qemu-agent-command", "--timeout", "120", vm, string(req)).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", command, err, text)
		}
		must(t, json.Unmarshal(text, &struct {
			Return any `json:"return"`
		}{out}))
	}
	var started struct {
		PID int `json:"pid"`
	}
	ask("guest-exec", map[string]any{"path": "/bin/sh", "arg": []string{"-c", script}, "capture-output": true}, &started)
	var status struct {
		Exited bool   `json:"exited"`
		Code   int    `json:"exitcode"`
		Out    []byte `json:"out-data"`
		Err    []byte `json:"err-data"`
	}
	eventuallyWithin(t, 3*time.Minute, script, func() bool {
		ask("guest-exec-status", map[string]int{"pid": started.PID}, &status)
		return status.Exited
	})
	if status.Code != 0 {
		t.Fatalf("%s: exit status %d\n%s%s", script, status.Code, status.Out, status.Err)
	}
	return string(status.Out)
}
