//go:build lab

package vpflab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/host/kernel"
	"sluice/internal/model"
	"sluice/lab"
	"sluice/lab/vpflab"
)

// way is a way to give a pod in a VM a network. Its scripts identify the guest's devices by MAC (see prelude).
type way struct {
	name    string
	setup   string // in the guest: creates the network namespace "pod"
	outside string // on the outside machine, before
	undo    string // in the guest, in addition to deleting the namespace
	tidy    string // on the outside machine, after
	far     string // address of the outside machine, as the pod sees it
	pod     string // address of the pod, as the outside machine sees it
	forge   string // what guest root sends forged frames through, as a device of the guest; "" or one that is not there: the pod's
	port    *model.SwitchPort
	plug    bool // the pod's NIC is hot-plugged for it
}

const (
	ownMAC   = "52:54:00:00:01:01"
	plainMAC = "52:54:00:88:00:01"
	vfMAC    = "52:54:00:77:00:01"
	vfTap    = "vpf1"
)

const prelude = `set -e; dev() { for i in /sys/class/net/*; do [ "$(cat $i/address)" = "$1" ] && echo ${i##*/} && return; done; :; }
give() { ip netns add pod; ip link set $1 netns pod name pod0; ip -n pod link set lo up
ip -n pod link set pod0 up; ip -n pod addr add $2 dev pod0; }
pair() { ip link add host0 type veth peer name pod1; ip link set host0 up; give pod1 $1; }
`

// ways returns the ways in the order of comparison; the last is the reference.
func ways() []way {
	const far = "10.9.0.100"
	return []way{
		{
			name: "overlay (VXLAN)", far: "10.50.0.100", pod: "10.50.0.2", forge: "eth0",
			outside: "ip link add vx0 type vxlan id 42 local 10.9.0.100 remote 10.9.0.11 dstport 4789 dev wire0; ip addr add 10.50.0.100/24 " +
				"dev vx0; ip link set vx0 mtu 1450 up",
			tidy: "ip link del vx0",
			setup: `ip link add cni0 type bridge; ip link set cni0 up
ip link add vx0 type vxlan id 42 local 10.9.0.11 remote 10.9.0.100 dstport 4789 dev eth0; ip link set vx0 master cni0 mtu 1450 up
pair 10.50.0.2/24; ip link set host0 master cni0; ip -n pod link set pod0 mtu 1450`,
			undo: "ip link del vx0; ip link del cni0",
		},
		{
			name: "routed veth, iptables", far: far, pod: "10.51.0.2", forge: "eth0",
			outside: "ip route add 10.51.0.0/24 via 10.9.0.11", tidy: "ip route del 10.51.0.0/24",
			// Chains and matches as a network policy creates them: state first, then a chain for the pod.
			setup: `pair 10.51.0.2/24; ip addr add 10.51.0.1/24 dev host0; ip -n pod route add default via 10.51.0.1
sysctl -qw net.ipv4.ip_forward=1
iptables -N POD; for i in 1 2 3 4 5 6 7 8; do iptables -A POD -s 10.52.$i.0/24 -p tcp --dport 80 -j DROP; done; iptables -A POD -j ACCEPT
iptables -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT; iptables -A FORWARD -o host0 -j POD
iptables -A FORWARD -i host0 -j POD; iptables -P FORWARD DROP`,
			undo: "iptables -P FORWARD ACCEPT; iptables -F; iptables -X; ip link del host0 2>/dev/null || true",
		},
		{
			name: "macvlan", far: far, pod: "10.9.0.52", forge: "eth0",
			setup: "ip link add mv0 link eth0 type macvlan mode bridge; give mv0 10.9.0.52/24",
		},
		{
			name: "VLAN sub-interface", far: "10.60.0.100", pod: "10.60.0.2",
			outside: "ip addr add 10.60.0.100/24 dev wire0", tidy: "ip addr del 10.60.0.100/24 dev wire0",
			setup: "ip link add link eth0 name eth0.10 type vlan id 10; give eth0.10 10.60.0.2/24",
			// This kernel has no VLAN devices: its switch strips the tag on the wire to the outside machine.
			port: &model.SwitchPort{Tap: "ext0", Bridge: "br0", Rules: []model.SwitchRule{{MACs: []model.MAC{{2}}, NoSpoofCheck: true, VLAN: 10}}},
		},
		{
			name: "virtio NIC of its own, hot-plugged", far: far, pod: "10.9.0.53", forge: "$(dev " + plainMAC + ")", plug: true,
			setup: "give $(dev " + plainMAC + ") 10.9.0.53/24",
		},
		{
			name: "virtual VF", far: far, pod: "10.9.0.54", forge: "$(dev " + vfMAC + ")",
			setup: "give $(dev " + vfMAC + ") 10.9.0.54/24",
			port: &model.SwitchPort{Tap: vfTap, Bridge: "br0", Rules: []model.SwitchRule{{
				MACs: []model.MAC{{0x52, 0x54, 0, 0x77, 0, 1}}, CheckARP: true, Addresses: []netip.Addr{netip.MustParseAddr("10.9.0.54")},
			}}},
		},
	}
}

// portEnv makes this test binary set a port of the switch in the host's namespaces, and exit.
const portEnv = "VPFLAB_SWITCH_PORT"

func TestMain(m *testing.M) {
	var err error
	switch text := os.Getenv(portEnv); {
	case filepath.Base(os.Args[0]) == "udp":
		err = udpMain(os.Args[1:])
	case text != "":
		var p model.SwitchPort
		if err = json.Unmarshal([]byte(text), &p); err == nil {
			err = setPort(p)
		}
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// setPort configures the port, or removes it if it has no rules.
func setPort(p model.SwitchPort) error {
	k, err := kernel.New(kernel.Options{})
	if err != nil {
		return err
	}
	defer k.Close()
	if len(p.Rules) == 0 {
		return k.RemoveSwitchPort(context.Background(), p.Tap)
	}
	_, err = k.SetSwitchPort(context.Background(), p)
	return err
}

// figures are the results of one measurement of a way.
type figures struct {
	send, receive      float64 // Mbit/s of UDP payload, one flow
	rtt, rtt99         float64 // ms
	guest, host        float64 // µs of CPU for each packet: of the guest's, and of its QEMU
	ready              float64 // s from nothing to the first answer
	forgedMAC, forgedA bool    // whether what guest root forges arrives outside: frames from a neighbour's MAC, ARP that speaks for it
}

// BenchmarkWays compares the ways to give a pod in a VM a network: one UDP flow, round trips, CPU time per packet, time to the first
// packet, and what guest root can do to others. Everything is emulated: only the ratios are meaningful, and they do not include what
// hardware would accelerate. A round takes some minutes; -benchtime 3x runs three rounds and shows the medians.
func BenchmarkWays(b *testing.B) {
	ctx := b.Context()
	h := hostForWays(ctx, b)
	all := ways()
	got := make([][]figures, len(all))
	for b.Loop() {
		for i := range all {
			f := measure(ctx, b, h, &all[i])
			b.Logf("%s: %+v", all[i].name, f)
			got[i] = append(got[i], f)
		}
	}
	b.Log("\n" + compared(all, got))
}

// hostForWays returns a host whose guest node has a virtual PF with two VFs and room for a hot-plugged NIC.
func hostForWays(ctx context.Context, b *testing.B) *vpflab.Host {
	b.Helper()
	h := vpflab.ForTest(b)
	exe, err := os.Executable()
	must(b, err)
	must(b, h.Put(exe, "switchport"))
	must(b, h.Put(exe, "udp"))
	node := vpflab.Node
	node.Devices, node.Tail = handmade(2)
	// libvirt also uses these ports for other devices; one is left for the hot-plugged NIC.
	node.Devices += strings.Repeat("<controller type='pci' model='pcie-root-port'/>", 9)
	must(b, h.Define(ctx, node))
	must(b, h.Boot(ctx, "node"))
	pf := pfOf(ctx, b, h, "node")
	guest(ctx, b, h, "node", "echo 2 >/sys/bus/pci/devices/"+pf+"/sriov_numvfs")
	_, err = h.Outside(ctx, "ping -c 3 10.9.0.11")
	must(b, err)
	return h
}

func measure(ctx context.Context, b *testing.B, h *vpflab.Host, w *way) (f figures) {
	b.Helper()
	f.ready = setUp(ctx, b, h, w)
	f.send = flow(ctx, b, h, w, true, 0, 6)
	f.receive = mostReceived(ctx, b, h, w, 6)
	f.rtt, f.rtt99 = roundTrips(b, outside(ctx, b, h, "ping -n -i 0.01 -c 500 "+w.pod))
	f.guest, f.host = cpu(ctx, b, h, w)
	f.forgedMAC, f.forgedA = forge(ctx, b, h, w)
	tearDown(ctx, b, h, w)
	return f
}

// setUp gives the pod its network, and returns the time to the first answer, in s.
func setUp(ctx context.Context, b *testing.B, h *vpflab.Host, w *way) float64 {
	b.Helper()
	if w.outside != "" {
		outside(ctx, b, h, w.outside)
	}
	if w.port != nil && w.port.Tap != vfTap { // it compensates for this kernel, and is not part of the way
		switchPort(ctx, b, h, *w.port)
	}
	begun := time.Now()
	if w.port != nil && w.port.Tap == vfTap {
		switchPort(ctx, b, h, *w.port)
	}
	if w.plug {
		_, err := h.Run(ctx, "virsh -q attach-interface node bridge br0 --model virtio --mac "+plainMAC+" --live")
		must(b, err)
		must(b, lab.Eventually(ctx, time.Minute, "the plugged NIC", func() (bool, error) {
			text, err := h.GuestExec(ctx, "node", prelude+"dev "+plainMAC)
			return strings.TrimSpace(text) != "", err
		}))
	}
	guest(ctx, b, h, "node", prelude+w.setup)
	guest(ctx, b, h, "node", "until ip netns exec pod ping -c 1 -W 1 "+w.far+" >/dev/null; do :; done")
	return time.Since(begun).Seconds()
}

// tearDown reverts setUp.
func tearDown(ctx context.Context, b *testing.B, h *vpflab.Host, w *way) {
	b.Helper()
	// The guest gets its own device back shortly after the namespace is deleted.
	guest(ctx, b, h, "node", prelude+"ip netns del pod; "+w.undo)
	if back := w.forge; back != "" && back != "eth0" {
		guest(ctx, b, h, "node", prelude+"until [ -n \""+back+"\" ]; do sleep 0.1; done")
	}
	if w.plug {
		_, err := h.Run(ctx, "virsh -q detach-interface node bridge --mac "+plainMAC+" --live")
		must(b, err)
		must(b, lab.Eventually(ctx, time.Minute, "the end of the plugged NIC", func() (bool, error) {
			text, err := h.GuestExec(ctx, "node", prelude+"dev "+plainMAC)
			return strings.TrimSpace(text) == "", err
		}))
	}
	if w.port != nil {
		switchPort(ctx, b, h, model.SwitchPort{Tap: w.port.Tap})
	}
	if w.tidy != "" {
		outside(ctx, b, h, w.tidy)
	}
}

// outside runs a shell command on the outside machine.
func outside(ctx context.Context, b *testing.B, h *vpflab.Host, script string) string {
	b.Helper()
	text, err := h.Outside(ctx, script)
	must(b, err)
	return text
}

// switchPort sets a port of the switch, or removes it if it has no rules.
func switchPort(ctx context.Context, b *testing.B, h *vpflab.Host, p model.SwitchPort) {
	b.Helper()
	text, err := json.Marshal(p)
	must(b, err)
	_, err = h.Run(ctx, portEnv+"='"+string(text)+"' /share/switchport")
	must(b, err)
}

// mostReceived raises the rate of the outside machine, as the paper does, until the pod receives less than 80 % of it. Each rate lasts
// some seconds. It returns the most that the pod received, in Mbit/s of payload.
func mostReceived(ctx context.Context, b *testing.B, h *vpflab.Host, w *way, seconds int) (most float64) {
	b.Helper()
	for rate := 2000.0; ; rate *= 1.4 {
		got := flow(ctx, b, h, w, false, rate, seconds)
		most = max(most, got)
		if got < 0.8*rate*udpPayload*8/1e6 {
			return most
		}
	}
}

// flow sends from the pod to the outside machine, or in the other direction, for some seconds at a rate in packets/s (0: as fast as
// possible), and returns what arrived, in Mbit/s of payload.
func flow(ctx context.Context, b *testing.B, h *vpflab.Host, w *way, out bool, rate float64, seconds int) float64 {
	b.Helper()
	const port = ":5001"
	send := fmt.Sprintf("udp send %%s%s %d %.0f", port, seconds, rate)
	var text string
	if out {
		sink, err := h.Start(ctx, "count", "ip netns exec ext udp count "+w.far+port)
		must(b, err)
		must(b, sink.AwaitOutput(ctx, time.Minute, "counting"))
		guest(ctx, b, h, "node", "ip netns exec pod "+fmt.Sprintf(send, w.far))
		must(b, sink.Wait(ctx))
		text, err = sink.Output()
		must(b, err)
	} else {
		must(b, h.GuestStart(ctx, "node", "count", "ip netns exec pod udp count "+w.pod+port))
		guest(ctx, b, h, "node", "until grep -q counting /run/count.log; do sleep 0.1; done")
		_, err := h.Outside(ctx, fmt.Sprintf(send, w.pod))
		must(b, err)
		text = guest(ctx, b, h, "node", "until grep -q counted /run/count.log; do sleep 0.2; done; cat /run/count.log")
	}
	var packets, ns float64
	if _, err := fmt.Sscanf(text[max(0, strings.Index(text, "counted")):], "counted %f %f", &packets, &ns); err != nil {
		b.Fatalf("what counts says: %q: %v", text, err)
	}
	if ns == 0 {
		return 0
	}
	return packets * udpPayload * 8 / ns * 1e3
}

var pingTime = regexp.MustCompile(`time=([0-9.]+) ms`)

// roundTrips returns the median and the 99th percentile from the output of ping.
func roundTrips(b *testing.B, text string) (median, p99 float64) {
	b.Helper()
	var all []float64
	for _, m := range pingTime.FindAllStringSubmatch(text, -1) {
		x, err := strconv.ParseFloat(m[1], 64)
		must(b, err)
		all = append(all, x)
	}
	if len(all) < 450 {
		b.Fatalf("%d of 500 answers", len(all))
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100]
}

// cpu returns the cost of a packet at a low rate, in excess of the idle load: the guest's CPU time by its own count, and that of its
// QEMU.
func cpu(ctx context.Context, b *testing.B, h *vpflab.Host, w *way) (inGuest, onHost float64) {
	b.Helper()
	const seconds, packets = 10, 500 * 10
	used := func(run string) float64 {
		b.Helper()
		text := guest(ctx, b, h, "node", `busy() { read -r _ u n s i o h q _ </proc/stat; echo $((u + n + s + h + q)); }; a=$(busy); `+run+
			` >/dev/null; echo $(($(busy) - a))`)
		g, err := strconv.ParseFloat(text, 64)
		must(b, err)
		return g
	}
	qemu := func() float64 {
		b.Helper()
		text, err := h.Run(ctx, `read -r line <"/proc/$(pgrep -f '[g]uest=node,')/stat"; set -- ${line##*) }; echo $((${12} + ${13}))`)
		must(b, err)
		x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		must(b, err)
		return x
	}
	before := qemu()
	restG := used(fmt.Sprintf("sleep %d", seconds))
	restQ := qemu() - before
	before = qemu()
	loadG := used(fmt.Sprintf("ip netns exec pod udp send %s:9 %d %d", w.far, seconds, packets/seconds))
	loadQ := qemu() - before
	const tick = 1e6 / 100 // µs
	return (loadG - restG) * tick / packets, (loadQ - restQ) * tick / packets
}

// forge has guest root send frames from a neighbour's MAC, and ARP that claims a neighbour's address for that MAC or for its own. It
// returns which of them arrive outside.
func forge(ctx context.Context, b *testing.B, h *vpflab.Host, w *way) (mac, arp bool) {
	b.Helper()
	seen, err := h.Start(ctx, "forged", "ip netns exec ext tcpdump -lnei wire0 ether src 02:de:ad:00:00:01 or ether proto 0x88b6 or arp")
	must(b, err)
	must(b, seen.AwaitOutput(ctx, time.Minute, "listening on"))
	script := prelude + `where=; d=` + w.forge + `; if [ -z "$d" ]; then where="ip netns exec pod"; d=pod0; fi
cat >/tmp/forge.py <<'END'
import socket, sys, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind((sys.argv[1], 0))
own = bytes.fromhex(open('/sys/class/net/%s/address' % sys.argv[1]).read().strip().replace(':', ''))
bad = bytes.fromhex('02dead000001'); all = b'\xff' * 6
arp = lambda mac: b'\x08\x06\x00\x01\x08\x00\x06\x04\x00\x02' + mac + bytes([10, 9, 0, 99]) + all + bytes([10, 9, 0, 100])
for i in range(10):
    s.send(all + bad + b'\x88\xb5' + bytes(50))
    s.send(all + own + arp(bad) + bytes(18)); s.send(all + own + arp(own) + bytes(18)); time.sleep(0.05)
s.send(all + own + b'\x88\xb6' + bytes(50))
END
$where python3 /tmp/forge.py $d`
	guest(ctx, b, h, "node", script)
	must(b, seen.AwaitOutput(ctx, time.Minute, "0x88b6")) // the last frame, which is legitimate
	text, err := seen.Output()
	must(b, err)
	must(b, seen.Stop(ctx))
	return strings.Contains(text, "02:de:ad:00:00:01 > ff"), strings.Contains(text, "Reply 10.9.0.99 is-at")
}

// compared returns a table of medians, relative to those of the last way.
func compared(all []way, got [][]figures) string {
	var t strings.Builder
	t.WriteString("| a pod's network | UDP sent, Mbit/s | received | round trip, ms | 99th percentile | guest CPU, µs a packet | QEMU's " +
		"| ready after, s | forged MAC arrives | forged ARP |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	last := got[len(got)-1]
	for i := range all {
		cell := func(of func(*figures) float64) string {
			x, y := median(got[i], of), median(last, of)
			if i == len(all)-1 || y == 0 {
				return fmt.Sprintf("%.3g", x)
			}
			return fmt.Sprintf("%.3g (%.2f)", x, x/y)
		}
		yes := map[bool]string{true: "yes", false: "no"}
		fmt.Fprintf(&t, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", all[i].name,
			cell(func(f *figures) float64 { return f.send }), cell(func(f *figures) float64 { return f.receive }),
			cell(func(f *figures) float64 { return f.rtt }), cell(func(f *figures) float64 { return f.rtt99 }),
			cell(func(f *figures) float64 { return f.guest }), cell(func(f *figures) float64 { return f.host }),
			cell(func(f *figures) float64 { return f.ready }), yes[got[i][0].forgedMAC], yes[got[i][0].forgedA])
	}
	return t.String()
}

func median(of []figures, what func(*figures) float64) float64 {
	var all []float64
	for i := range of {
		all = append(all, what(&of[i]))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
