package sluiceguest

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
	"sluice/internal/channel"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/inside/vfsysfs"
)

// VFs of igb PFs get the MACs that the host has for them, by PF and index; VFs of virtio and VFs unknown to the host get none.
func TestMACsFor(t *testing.T) {
	pfs := []vfsysfs.PF{
		{
			Driver: "igb", Netdev: "pf0", MAC: "52:54:00:00:00:01",
			VFs: []vfsysfs.VF{{Index: 0, Netdev: "vf0", Address: "0000:02:10.0", Driver: "igbvf"}, {Index: 1}, {Index: 2}},
		},
		{Driver: "virtio-pci", Netdev: "pf1", MAC: "52:54:00:00:00:02", VFs: []vfsysfs.VF{{Index: 0, Netdev: "vf1"}}},
		{Driver: "igb", Netdev: "foreign", MAC: "52:54:00:00:00:03", VFs: []vfsysfs.VF{{Index: 0, Netdev: "vf2"}}},
	}
	held := []channel.Held{
		{VF: channel.VF{PF: "52:54:00:00:00:01", Index: 1}, MAC: "52:54:00:00:01:02", Owner: "pod"},
		{VF: channel.VF{PF: "52:54:00:00:00:01"}, MAC: "52:54:00:00:01:01"},
		{VF: channel.VF{PF: "52:54:00:00:00:02"}, MAC: "52:54:00:00:02:01"},
	}
	want := []newMAC{
		{"pf0", 0, "vf0", "52:54:00:00:01:01", "0000:02:10.0", "igbvf"},
		{PF: "pf0", Index: 1, MAC: "52:54:00:00:01:02"},
	}
	if diff := cmp.Diff(want, macsFor(pfs, held), cmp.AllowUnexported(newMAC{})); diff != "" {
		t.Error(diff)
	}
}

// The kernel understands the request: a NIC without VFs answers that it has none, not that the request is invalid.
func TestMACOfVF(t *testing.T) {
	noLeaks(t)
	kerneltest.IP(t, "link add mac0 type veth peer name mac1")
	conn, err := rtnl.Dial(1)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	m := newMAC{PF: "mac0", Index: 3, Netdev: "mac1", MAC: "52:54:00:00:01:01"}
	if err := m.set(t.Context(), conn, fstest.MapFS{}); !errors.Is(err, unix.EOPNOTSUPP) ||
		!strings.Contains(err.Error(), "ip link set mac0 vf 3 mac 52:54:00:00:01:01") {
		t.Errorf("have %v", err)
	}
	if pf, err := net.InterfaceByName("mac0"); err != nil || pf.Flags&net.FlagUp == 0 {
		t.Errorf("the PF is not up, so that its driver answers none of a VF's: %v, %v", pf, err)
	}
	info := rtnl.Attr(rtnl.Attr(rtnl.Body(vfMAC("mac0", 3, net.HardwareAddr{1, 2, 3, 4, 5, 6}).Message().Data, unix.SizeofIfInfomsg),
		unix.IFLA_VFINFO_LIST), unix.IFLA_VF_INFO)
	value := rtnl.Attr(info, unix.IFLA_VF_MAC)
	if len(value) != 36 || rtnl.U32(value) != 3 || string(value[4:11]) != "\x01\x02\x03\x04\x05\x06\x00" {
		t.Errorf("have % x", value)
	}
	for _, bad := range []string{"", "x", "00:00:00:00:00:00:00:01"} {
		if err := (&newMAC{PF: "mac0", Index: 3, MAC: bad}).set(t.Context(), conn, fstest.MapFS{}); err == nil ||
			!strings.Contains(err.Error(), "the host's MAC") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A VF whose driver started without the PF's answer has a random MAC, which is reported.
func TestMACNotTaken(t *testing.T) {
	address := "sys/bus/pci/devices/0000:02:10.0/net/vf7/address"
	for have, want := range map[string]string{"52:54:00:00:01:01": "", "7a:00:00:00:00:01": `"vf7" has "7a:00:00:00:00:01"`} {
		sys, err := fs.Sub(fstest.MapFS{address: {Data: []byte(have + "\n")}}, "sys")
		if err != nil {
			t.Fatal(err)
		}
		err = (&newMAC{PF: "mac0", MAC: "52:54:00:00:01:01", address: "0000:02:10.0"}).check(sys)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", have, err)
		}
	}
}

// The driver releases the device before it takes it again.
func TestRebind(t *testing.T) {
	driver := t.TempDir()
	if err := rebind(driver, "0000:02:10.0"); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"unbind", "bind"} {
		if have, err := os.ReadFile(filepath.Join(driver, file)); err != nil || string(have) != "0000:02:10.0" {
			t.Errorf("%s: %q, %v", file, have, err)
		}
	}
	if err := rebind(driver+"/none", "0000:02:10.0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("have %v", err)
	}
}

// set-macs waits for the service and the host, and reports what it did.
func TestSetMACsWaitsForTheHost(t *testing.T) {
	noLeaks(t)
	socket := filepath.Join(t.TempDir(), "s")
	root := fstest.MapFS{"sys/x": &fstest.MapFile{Mode: fs.ModePerm}}
	var out, errs strings.Builder
	p := &program{out: &out, err: &errs, root: root}
	done := make(chan int)
	go func() { done <- p.main(t.Context(), []string{"set-macs", "-o", "json", "-socket", socket}) }()
	l, err := listen(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- serveLocal(ctx, l, &slowHost{refusals: 2}, slog.New(slog.DiscardHandler)) }()
	if status := <-done; status != exitOK || strings.TrimSpace(out.String()) != "[]" {
		t.Errorf("status %d, %s, %s", status, out.String(), errs.String())
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// slowHost refuses the first requests.
type slowHost struct{ refusals int }

func (h *slowHost) Handle(context.Context, channel.Method, json.RawMessage) (any, error) {
	if h.refusals--; h.refusals >= 0 {
		return nil, &channel.Error{Code: channel.CodeNoDaemon, Text: "not yet"}
	}
	return channel.List{}, nil
}
