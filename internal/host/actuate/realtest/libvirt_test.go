package realtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/host/actuate"
	"sluice/internal/host/kernel"
	"sluice/internal/host/libvirt"
	"sluice/internal/host/libvirt/libvirttest"
	"sluice/internal/host/observe"
	"sluice/internal/host/uplink"
	"sluice/internal/host/uplink/bridge"
	"sluice/internal/model"
)

// kernelOf opens the kernel in the daemon's network namespace. Functions that use /sys or open sockets later still see the test's own.
func kernelOf(t *testing.T, d *libvirttest.Daemon) *kernel.Host {
	t.Helper()
	ns, err := os.Open(namespace(t, strings.TrimSpace(d.Run(t, "readlink", "/proc/self/ns/net"))))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ns.Close() }()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Close() }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	k, err := kernel.New(kernel.Options{})
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		t.Fatal(back)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// namespace finds a process in the network namespace of that name.
func namespace(t *testing.T, name string) string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if link, err := os.Readlink(path); err == nil && link == name {
			return path
		}
	}
	t.Fatalf("no process is in %s", name)
	return ""
}

// A real VM on a real libvirtd and a real tap, from start to end.
func TestLibvirt(t *testing.T) {
	d := libvirttest.Start(t)
	vm := libvirttest.VM{Name: "vm1", Ports: 1, NICs: []string{libvirttest.NIC("52:54:00:00:00:01", "ua-net0", true)}}
	d.Create(t, vm)
	k := kernelOf(t, d)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	lv, err := libvirt.Open(ctx, libvirt.Options{URI: d.URI()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lv.Close(); err != nil {
			t.Error(err)
		}
	})
	source := observe.New(k, uplink.Set{bridge.New(k)}, lv, nil, observe.Options{})
	t.Cleanup(source.Close)
	actuator := actuate.New(k, uplink.Set{bridge.New(k)}, lv, nil)

	look := func() *model.Snapshot {
		s, err := source.Snapshot(ctx)
		if err != nil {
			t.Logf("Snapshot: %v", err)
			return &model.Snapshot{}
		}
		return s
	}
	var nic model.NIC
	libvirttest.Eventually(t, time.Minute, "the machine and its tap are seen", func() bool {
		s := look()
		if len(s.VMs) != 1 || len(s.VMs[0].NICs) != 1 {
			return false
		}
		nic = s.VMs[0].NICs[0]
		return s.VMs[0].State == model.VMPaused && nic.Virtio.Known
	})
	want := model.NIC{
		Alias: "ua-net0", MAC: guestMAC, Tap: nic.Tap, TapIndex: nic.TapIndex, Network: libvirttest.Bridge,
		Failover: model.FailoverTeaming, FreePort: model.Yes, LinkUp: model.Yes, Virtio: nic.Virtio,
	}
	if nic != want || nic.TapIndex == 0 {
		t.Errorf("got %+v, want %+v", nic, want)
	}

	check := func() error {
		return actuator.Do(ctx, model.Step{
			Kind: model.StepCheckVirtio, Subject: model.Subject{VM: model.VMID(vm.UUID()), VMName: vm.Name},
			Path:   model.PathStep{MAC: guestMAC, Tap: nic.Tap, Network: libvirttest.Bridge},
			Device: model.DeviceStep{NIC: nic.Alias, MAC: guestMAC, Failover: model.FailoverTeaming},
		})
	}
	if err := check(); err == nil || errors.Is(err, model.ErrGone) {
		t.Errorf("of a paused machine: %v", err)
	}
	d.Virsh(t, "resume", vm.Name)
	libvirttest.Eventually(t, time.Minute, "it runs and uses a CPU", func() bool {
		s := look()
		return len(s.VMs) == 1 && s.VMs[0].State == model.VMRunning && s.VMs[0].CPUKnown && s.VMs[0].CPU >= 0
	})
	libvirttest.Eventually(t, time.Minute, "its virtio path is sound", func() bool { return check() == nil })
	d.Run(t, "ip", "link", "set", nic.Tap, "nomaster")
	if err := check(); err == nil || !strings.Contains(err.Error(), "in no bridge") {
		t.Errorf("out of its bridge: %v", err)
	}

	d.Kill(t)
	libvirttest.Eventually(t, time.Minute, "no Snapshot without libvirtd", func() bool {
		_, err := source.Snapshot(ctx)
		return errors.Is(err, libvirt.ErrDisconnected)
	})
	d.Start(t)
	libvirttest.Eventually(t, time.Minute, "the machine is seen again", func() bool { return len(look().VMs) == 1 })
	d.Destroy(t, vm.Name)
	libvirttest.Eventually(t, time.Minute, "the machine is gone", func() bool {
		s, err := source.Snapshot(ctx)
		return err == nil && len(s.VMs) == 0
	})
	if err := check(); !errors.Is(err, model.ErrGone) {
		t.Errorf("of a machine that is gone: %v", err)
	}
}
