package sluiceguest

import (
	"io/fs"
	"net"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"

	"sluice/internal/channel"
	"sluice/internal/host/kernel/kerneltest"
)

// place makes interfaces appear in sysfs with such devices; "" is no device.
func place(devices map[string]string, physfns ...string) fstest.MapFS {
	sys := fstest.MapFS{}
	for name, device := range devices {
		to := "devices/virtual/net/" + name
		if device != "" {
			to = device + "/net/" + name
		}
		sys["class/net/"+name] = &fstest.MapFile{Data: []byte("../../" + to), Mode: fs.ModeSymlink | 0o777}
	}
	for _, d := range physfns {
		sys[d+"/physfn"] = &fstest.MapFile{Data: []byte("../x"), Mode: fs.ModeSymlink | 0o777}
	}
	return sys
}

func TestCountersOfOwnNICs(t *testing.T) {
	noLeaks(t)
	for _, name := range []string{"nic0", "passed0", "vfvirtio0", "vfigb0", "bridge0"} {
		kerneltest.IP(t, "link add "+name+" type veth peer name p"+name)
	}
	kerneltest.IP(t, "link set nic0 up address 52:54:00:00:00:77")
	kerneltest.IP(t, "link set pnic0 up")
	kerneltest.IP(t, "addr add 192.0.2.1/24 dev nic0")
	kerneltest.IP(t, "neigh replace 192.0.2.9 lladdr 52:54:00:00:00:99 dev nic0")
	const pci = "devices/pci0000:00/0000:00:02.0/"
	c, err := newCounters(place(map[string]string{
		"nic0": pci + "0000:01:00.0/virtio3", "passed0": pci + "0000:05:00.0", "vfvirtio0": pci + "0000:01:00.1/virtio4", "vfigb0": pci +
			"0000:02:10.0", "bridge0": "",
	}, pci+"0000:01:00.1", pci+"0000:02:10.0"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	before := only(t, c, "nic0", "passed0")["nic0"]
	send(t, 10, "192.0.2.9:9")
	after := only(t, c, "nic0", "passed0")["nic0"]
	if n := after.TxPackets - before.TxPackets; n < 10 {
		t.Errorf("10 packets were counted as %d", n)
	}
	if n := after.TxBytes - before.TxBytes; n < 10*500 {
		t.Errorf("10 packets of 500 bytes were counted as %d bytes", n)
	}
	if after.MAC != "52:54:00:00:00:77" {
		t.Error(after.MAC)
	}
}

// only reads the counters, which must be of exactly these interfaces.
func only(t *testing.T, c *counters, names ...string) map[string]channel.Interface {
	t.Helper()
	all, err := c.read(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]channel.Interface{}
	for _, i := range all.Interfaces {
		out[i.Name] = i
	}
	if len(out) != len(names) {
		t.Fatalf("%v, want %v", out, names)
	}
	for _, n := range names {
		if _, ok := out[n]; !ok {
			t.Fatalf("%v, want %v", out, names)
		}
	}
	return out
}

// send sends packets of 500 bytes to an address.
func send(t *testing.T, n int, to string) {
	t.Helper()
	conn, err := net.Dial("udp", to)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range n {
		if _, err := conn.Write(make([]byte, 500)); err != nil {
			t.Fatal(err)
		}
	}
}

// The backlog of a slow queue is reported.
func TestBacklog(t *testing.T) {
	noLeaks(t)
	kerneltest.IP(t, "link add slow0 type veth peer name pslow0")
	kerneltest.IP(t, "link set slow0 up")
	kerneltest.IP(t, "link set pslow0 up")
	kerneltest.IP(t, "addr add 198.51.100.1/24 dev slow0")
	kerneltest.IP(t, "neigh replace 198.51.100.9 lladdr 52:54:00:00:00:99 dev slow0")
	for _, line := range []string{
		"qdisc add dev slow0 root handle 1: htb default 1",
		"class add dev slow0 parent 1: classid 1:1 htb rate 8kbit burst 2000",
	} {
		if out, err := exec.Command("tc", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("tc %s: %v: %s", line, err, out)
		}
	}
	c, err := newCounters(place(map[string]string{"slow0": "devices/pci0000:00/0000:01:00.0"}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n := only(t, c, "slow0")["slow0"].Backlog; n != 0 {
		t.Errorf("%d bytes wait before anything is sent", n)
	}
	send(t, 50, "198.51.100.9:9")
	if n := only(t, c, "slow0")["slow0"].Backlog; n < 10_000 || n > 50*600 {
		t.Errorf("of 25 kB sent at once at 1 kB/s %d bytes wait", n)
	}
}
