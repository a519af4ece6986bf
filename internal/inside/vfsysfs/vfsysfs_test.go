package vfsysfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/channel"
)

// sysfs builds a tree from lines "path = contents" and "path -> target".
func sysfs(t *testing.T, lines string) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if p, to, ok := strings.Cut(line, " -> "); ok {
			out[p] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
		} else if p, text, ok := strings.Cut(line, " = "); ok {
			out[p] = &fstest.MapFile{Data: []byte(text + "\n"), Mode: 0o444}
		} else if line != "" {
			t.Fatalf("bad line %q", line)
		}
	}
	return out
}

// A guest with a virtio PF that has two VFs, the second of them in a container, an igb PF with one VF whose driver is missing, and a
// NIC that cannot have VFs. The layout is that of a real guest.
const guest = `
bus/pci/devices/0000:01:00.0 -> ../../../devices/pci0000:00/0000:00:02.0/0000:01:00.0
bus/pci/devices/0000:01:00.1 -> ../../../devices/pci0000:00/0000:00:02.0/0000:01:00.1
bus/pci/devices/0000:01:00.2 -> ../../../devices/pci0000:00/0000:00:02.0/0000:01:00.2
bus/pci/devices/0000:02:00.0 -> ../../../devices/pci0000:00/0000:00:02.1/0000:02:00.0
bus/pci/devices/0000:02:10.0 -> ../../../devices/pci0000:00/0000:00:02.1/0000:02:10.0
bus/pci/devices/0000:03:00.0 -> ../../../devices/pci0000:00/0000:00:02.2/0000:03:00.0
devices/pci0000:00/0000:00:02.0/0000:01:00.0/sriov_totalvfs = 7
devices/pci0000:00/0000:00:02.0/0000:01:00.0/sriov_numvfs = 2
devices/pci0000:00/0000:00:02.0/0000:01:00.0/driver -> ../../../../bus/pci/drivers/virtio-pci
devices/pci0000:00/0000:00:02.0/0000:01:00.0/virtfn0 -> ../0000:01:00.1
devices/pci0000:00/0000:00:02.0/0000:01:00.0/virtfn1 -> ../0000:01:00.2
devices/pci0000:00/0000:00:02.0/0000:01:00.0/virtio5/net/enp1s0/address = 52:54:00:AB:00:01
devices/pci0000:00/0000:00:02.0/0000:01:00.1/physfn -> ../0000:01:00.0
devices/pci0000:00/0000:00:02.0/0000:01:00.1/driver -> ../../../../bus/pci/drivers/virtio-pci
devices/pci0000:00/0000:00:02.0/0000:01:00.1/virtio6/net/enp1s0v0/address = 52:54:00:ab:00:02
devices/pci0000:00/0000:00:02.0/0000:01:00.2/physfn -> ../0000:01:00.0
devices/pci0000:00/0000:00:02.0/0000:01:00.2/driver -> ../../../../bus/pci/drivers/virtio-pci
devices/pci0000:00/0000:00:02.0/0000:01:00.2/virtio7/status = 0x0000000f
devices/pci0000:00/0000:00:02.1/0000:02:00.0/sriov_totalvfs = 7
devices/pci0000:00/0000:00:02.1/0000:02:00.0/sriov_numvfs = 1
devices/pci0000:00/0000:00:02.1/0000:02:00.0/driver -> ../../../../bus/pci/drivers/igb
devices/pci0000:00/0000:00:02.1/0000:02:00.0/net/enp2s0/address = 52:54:00:ab:00:10
devices/pci0000:00/0000:00:02.1/0000:02:00.0/virtfn0 -> ../0000:02:10.0
devices/pci0000:00/0000:00:02.1/0000:02:10.0/physfn -> ../0000:02:00.0
devices/pci0000:00/0000:00:02.2/0000:03:00.0/virtio0/net/enp3s0/address = 52:54:00:ab:00:20
`

func TestPFs(t *testing.T) {
	got, err := PFs(sysfs(t, guest))
	if err != nil {
		t.Fatal(err)
	}
	want := []PF{
		{Address: "0000:01:00.0", Driver: "virtio-pci", Netdev: "enp1s0", MAC: "52:54:00:ab:00:01", TotalVFs: 7, NumVFs: 2, VFs: []VF{
			{Address: "0000:01:00.1", Index: 0, Driver: "virtio-pci", Netdev: "enp1s0v0"}, {Address: "0000:01:00.2", Index: 1, Driver: "virtio-pci"},
		}},
		{
			Address: "0000:02:00.0", Driver: "igb", Netdev: "enp2s0", MAC: "52:54:00:ab:00:10", TotalVFs: 7, NumVFs: 1,
			VFs: []VF{{Address: "0000:02:10.0"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err := PFs(fstest.MapFS{}); got != nil || err != nil {
		t.Errorf("without a PCI bus: %v, %v", got, err)
	}
}

func TestFind(t *testing.T) {
	sys := sysfs(t, guest)
	for address, want := range map[string]struct {
		vf             channel.VF
		netdev, driver string
	}{
		"0000:01:00.1": {channel.VF{PF: "52:54:00:ab:00:01", Index: 0}, "enp1s0v0", "virtio-pci"},
		"0000:01:00.2": {channel.VF{PF: "52:54:00:ab:00:01", Index: 1}, "", "virtio-pci"},
		"0000:02:10.0": {channel.VF{PF: "52:54:00:ab:00:10", Index: 0}, "", ""},
	} {
		vf, netdev, driver, err := Find(sys, address)
		if vf != want.vf || netdev != want.netdev || driver != want.driver || err != nil {
			t.Errorf("%s: %v %q %q %v, want %v", address, vf, netdev, driver, err, want)
		}
	}
}

func TestFindRefuses(t *testing.T) {
	for name, c := range map[string]struct{ drop, address, want string }{
		"no address": {"", "../../../etc", "is not a PCI address"},
		"no device":  {"", "0000:01:00.7", "no PCI device 0000:01:00.7"},
		"no VF":      {"", "0000:03:00.0", "is not a VF"},
		"PF hidden":  {"enp1s0/", "0000:01:00.1", "has no network interface here"},
		"not listed": {"virtfn0", "0000:01:00.1", "does not list VF"},
	} {
		sys := sysfs(t, guest)
		for p := range sys {
			if c.drop != "" && strings.Contains(p, c.drop) {
				delete(sys, p)
			}
		}
		if _, _, _, err := Find(sys, c.address); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The tree of a real file system gives the same result.
func TestFindInDirectory(t *testing.T) {
	root := t.TempDir()
	for p, f := range sysfs(t, guest) {
		full := filepath.Join(root, p)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		var err error
		if f.Mode.Type() == fs.ModeSymlink {
			err = os.Symlink(string(f.Data), full)
		} else {
			err = os.WriteFile(full, f.Data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	vf, netdev, driver, err := Find(os.DirFS(root), "0000:01:00.1")
	if want := (channel.VF{PF: "52:54:00:ab:00:01"}); vf != want || netdev != "enp1s0v0" || driver != "virtio-pci" || err != nil {
		t.Errorf("%v %q %q %v", vf, netdev, driver, err)
	}
}
