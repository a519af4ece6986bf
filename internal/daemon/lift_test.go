package daemon

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/internal/host/htb"
	"sluice/internal/host/kernel"
	"sluice/internal/host/libvirt/libvirttest"
	"sluice/internal/host/tap"
	"sluice/internal/model"
)

// tapsMain prints the policies of taps. Given the name of a tap, it first sets a rate of 3 Mbit/s on it, as a daemon would but
// with a lease of an hour, and directs it to an HTB tree.
func tapsMain() {
	k, err := kernel.New(kernel.Options{Lease: time.Hour})
	if err == nil && len(os.Args) > 1 {
		class := htb.ShaperClass{ID: 2, Rate: 1e6, Ceil: 1e9, Quantum: 64 << 10}
		var tree htb.Shaper
		tree, err = k.SetShaper(context.Background(), htb.Shaper{PF: 1, Rate: 1e9, Queue: 1e6, Classes: []htb.ShaperClass{class}})
		if err == nil {
			_, err = k.UpdateTap(context.Background(), os.Args[1], func(p *tap.Policy) {
				p.Tx.Now, p.Shaper, p.Class = model.Rate{Bits: 3e6}, tree.Device, class.Handle()
			})
		}
	}
	var all []tap.Policy
	if err == nil {
		all, err = k.TapPolicies(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for i := range all {
		p := &all[i]
		fmt.Printf("%s tx %s of %s, rx %s of %s\n", p.Tap, show(p.Tx.Now), show(p.Tx.Contract), show(p.Rx.Now), show(p.Rx.Contract))
	}
	fmt.Println("taps:", len(all))
}

func show(r model.Rate) string { return cmp.Or(r.String(), "any") }

// lifting kills a daemon and lifts what it left. %[1]s is the directory of sluice and sluiced, %[2]s that of the config.
const lifting = `
set -eu
export PATH=%[1]s:$PATH TEST_RUN_DIR=%[2]s/run
cd %[2]s
mount -t bpf -o mode=0700 bpf /sys/fs/bpf
lift() { sluiced --config sluice.yaml --lift-limits "$@" 2>&1; }
until_taps() { for i in $(seq 300); do taps >out; grep -q "$1" out && return; sleep 0.1; done; cat out log; exit 1; }
echo "== nothing to lift"; lift; taps
sluiced --config sluice.yaml --mode enforce 2>log & pid=$!
trap 'kill -9 $pid 2>/dev/null || true' EXIT
until_taps 'tx any of 1Gbit, rx any of 2Gbit'
for i in $(seq 300); do sluice --socket s sla set v1 --limit 500Mbit >/dev/null 2>&1 && break; sleep 0.1; done
until_taps 'tx any of 500Mbit, rx any of 2Gbit'
echo "== while it runs"; lift || true
kill -9 $pid; wait $pid || true
tap=$(taps | awk '/ tx /{print $1}')
echo "== left"; taps $tap
echo "== fsck"; sluice fsck --offline --config sluice.yaml || true
echo "== fsck of a daemon in observe mode"
sluiced --config sluice.yaml --mode observe 2>observed & observer=$!
for i in $(seq 300); do sluice --socket s fsck >out 2>&1 || true; ! grep -q left-limit out || break; sleep 0.1; done; cat out
kill $observer; wait $observer || true
echo "== lifted"; lift; taps; ip -br link show type ifb | wc -l
echo "== fsck after it"; sluice fsck --offline --config sluice.yaml || true
echo "== lifted altogether"; lift --lift; taps
`

// The command that the unit runs after the daemon lifts the rates that a killed daemon left. Limits of SLAs stay, including those
// set at run time, and the command limits nothing itself.
func TestLiftLimits(t *testing.T) {
	d := libvirttest.Start(t)
	d.Create(t, libvirttest.VM{Name: "v1", Ports: 1, NICs: []string{libvirttest.NIC("52:54:00:00:01:01", "ua-net0", true)}})
	d.Virsh(t, "resume", "v1")
	bin, dir := onLibvirt(t, d, "vms: [{match: v1, limit: 1Gbit, receive: 2Gbit}]\n")
	out := d.Run(t, "bash", "-c", fmt.Sprintf(lifting, bin, dir))
	t.Log(out)
	parts := strings.Split(out, "== ")
	for i, want := range []string{
		"\ntaps: 0\n",
		"is in use by a running daemon",
		"tx 3Mbit of 500Mbit, rx any of 2Gbit\ntaps: 1\n",
		"v1 ua-net0: its tap vnet0 is left with 3Mbit for 10s at most, and then a limit of 500Mbit, and directed to an HTB tree for what it sends, and its SLA asks for a limit of 500Mbit [left-limit]\n" +
			"    -> the next start of sluiced lifts it in enforce mode, or now: sluiced --lift-limits\n",
		"and its SLA asks for a limit of 500Mbit [left-limit]\n",
		"tx any of 500Mbit, rx any of 2Gbit\ntaps: 1\n0\n",
		"No leftover or wrong settings.\n",
		"\ntaps: 0\n",
	} {
		if len(parts) < i+2 || !strings.Contains(parts[i+1], want) {
			t.Errorf("%q is missing in part %d", want, i)
		}
	}
}
