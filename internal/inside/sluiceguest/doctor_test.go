package sluiceguest

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"sluice/internal/channel"
)

// machine is a guest's root directory in which doctor finds no problem; it leaves out lines that contain drop, and appends add.
func machine(drop, add string) fstest.MapFS {
	const whole = `
dev/virtio-ports/org.sluice.0 = x
sys/bus/pci/devices/0000:01:00.0/sriov_totalvfs = 4
sys/bus/pci/devices/0000:01:00.0/sriov_numvfs = 1
sys/bus/pci/devices/0000:01:00.0/driver -> ../../drivers/virtio-pci
sys/bus/pci/devices/0000:01:00.0/virtio5/net/eth1/address = 52:54:00:ab:00:01
sys/bus/pci/devices/0000:01:00.0/virtfn0 -> ../0000:01:00.1
sys/bus/pci/devices/0000:01:00.1/physfn -> ../0000:01:00.0
sys/bus/pci/devices/0000:01:00.1/driver -> ../../drivers/virtio-pci
sys/bus/pci/devices/0000:01:00.1/virtio6/net/eth2/address = 52:54:00:ab:00:02
`
	out := fstest.MapFS{}
	for line := range strings.Lines(whole + add) {
		line = strings.TrimSpace(line)
		if line == "" || (drop != "" && strings.Contains(line, drop)) {
			continue
		}
		if p, to, ok := strings.Cut(line, " -> "); ok {
			out[p] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
		} else {
			p, text, _ := strings.Cut(line, " = ")
			out[p] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
	}
	return out
}

// running starts a service with a daemon.
func running(t *testing.T) (socket string) {
	c := &cable{}
	socket = service(t, c.open, nil)
	client := dial(t, socket)
	host(t, c, &daemon{welcome: channel.Welcome{Program: "h1"}})
	eventually(t, "the daemon is there", func() bool { return hello(t, client) == "" })
	return socket
}

func TestDoctor(t *testing.T) {
	noLeaks(t)
	socket := running(t)
	for name, c := range map[string]struct{ drop, add, want, remedy string }{
		"well":    {},
		"no port": {drop: "virtio-ports", want: "no virtio-serial port", remedy: "modprobe virtio_console"},
		"no PF":   {drop: "sriov_", want: "no PCI device here can have VFs", remedy: "sluice vpf define"},
		"no VFs": {
			drop: "virtfn0", add: "sys/bus/pci/devices/0000:01:00.0/sriov_numvfs = 0", want: "has none of its 4 VFs",
			remedy: "echo 4 > /sys/bus/pci/devices/0000:01:00.0/sriov_numvfs",
		},
		"fewer VFs":   {add: "sys/bus/pci/devices/0000:01:00.0/sriov_numvfs = 2", want: "sriov_numvfs is 2, but there are 1", remedy: "write 0"},
		"PF hidden":   {drop: "eth1", want: "has no network interface here", remedy: "move its interface back"},
		"PF undriven": {drop: "0000:01:00.0/driver", want: "has no driver", remedy: "modprobe"},
		"VF undriven": {drop: "0000:01:00.1/driver", want: "number 0 of eth1 has no driver", remedy: "modprobe virtio_net"},
		"no physfn":   {drop: "physfn", want: "is not a VF", remedy: "write 0"},
	} {
		var out, errs bytes.Buffer
		p := &program{out: &out, err: &errs, root: machine(c.drop, c.add)}
		status := p.main(t.Context(), []string{"doctor", "-socket", socket})
		if want := map[bool]int{true: exitOK, false: exitFailed}[c.want == ""]; status != want {
			t.Errorf("%s: status %d:\n%s%s", name, status, &out, &errs)
		}
		if strings.Contains(out.String(), "FAIL") != (c.want != "") || !strings.Contains(out.String(), c.want) ||
			!strings.Contains(out.String(), c.remedy) {
			t.Errorf("%s: want %q, %q:\n%s", name, c.want, c.remedy, &out)
		}
	}
}

func TestDoctorWithoutServiceOrDaemon(t *testing.T) {
	noLeaks(t)
	for want, socket := range map[string]string{
		"enable --now sluice-guest":      filepath.Join(t.TempDir(), "none"),
		"on the host: systemctl status ": service(t, (&cable{}).open, nil),
	} {
		var out bytes.Buffer
		p := &program{out: &out, err: &out, root: machine("", "")}
		if status := p.main(t.Context(), []string{"doctor", "-socket", socket}); status != exitFailed || !strings.Contains(out.String(), want) {
			t.Errorf("status %d, want %q:\n%s", status, want, &out)
		}
	}
}

func TestStatusAndVFs(t *testing.T) {
	noLeaks(t)
	socket := running(t)
	run := func(args ...string) string {
		var out, errs bytes.Buffer
		p := &program{out: &out, err: &errs, root: machine("", "")}
		if status := p.main(t.Context(), append(args, "-socket", socket)); status != exitOK {
			t.Errorf("%v: status %d: %s", args, status, &errs)
		}
		return out.String()
	}
	if out := run("status"); !strings.Contains(out, "Sluice h1") || !strings.Contains(out, "c1/net1") {
		t.Error(out)
	}
	var s struct{ VFs []channel.Held }
	if err := json.Unmarshal([]byte(run("status", "-o", "json")), &s); err != nil || len(s.VFs) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if out := run("vfs"); !strings.Contains(out, "0000:01:00.1") || !strings.Contains(out, "52:54:00:ab:00:01") {
		t.Error(out)
	}
	var v []shownVF
	want := shownVF{
		Address: "0000:01:00.1", PF: "0000:01:00.0", PFMAC: "52:54:00:ab:00:01", PFNetdev: "eth1", Driver: "virtio-pci",
		Netdev: "eth2",
	}
	if err := json.Unmarshal([]byte(run("vfs", "-o", "json")), &v); err != nil || len(v) != 1 || v[0] != want {
		t.Errorf("%+v, %v", v, err)
	}
}

// A PF without VFs is listed, with the command that creates them.
func TestVFsNamesAPFWithoutAny(t *testing.T) {
	var out bytes.Buffer
	p := &program{out: &out, err: &out, root: machine("virtfn0", "")}
	if status := p.main(t.Context(), []string{"vfs"}); status != exitOK ||
		!strings.Contains(out.String(), "0000:01:00.0 eth1 (52:54:00:ab:00:01) has none of its 4 VFs: echo 4 > /sys/bus/pci/devices/0000:01:00.0/sriov_numvfs\n") {
		t.Errorf("status %d: %s", status, &out)
	}
}

func TestUsage(t *testing.T) {
	for line, want := range map[string]int{
		"-h": exitOK, "-version": exitOK, "fly": exitUsage, "vfs -o yaml": exitUsage, "vfs x": exitUsage, "-none": exitUsage,
		"status -socket /none/here": exitFailed, "run -socket /none/here": exitFailed,
	} {
		var out, errs bytes.Buffer
		if got := Main(t.Context(), strings.Fields(line), &out, &errs, "v1"); got != want {
			t.Errorf("%s: %d, want %d: %s%s", line, got, want, &out, &errs)
		}
	}
}
