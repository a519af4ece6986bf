//go:build lab

package e2e

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/lab"
)

// Guests ask to send 120 packets of 1400 bytes a second each, 1.4 Mbit/s on the wire.
const (
	bwPPS  = 120
	bwSize = 1400
	bwWire = (bwSize + 28 + 14 + 24) * 8 // bits of a packet on the wire
)

const guarantee = `mode: enforce
policy: none
interval: 5s
guest_agent: {every: 2s, timeout: 2s}
bandwidth: {period: 500ms, in_guest: true}
pfs:
  - {name: pf0, vfs: 0-3, speed: %dkbit, vf_rates: none} # the emulated NIC takes VF rates and does not heed them
vms:
  - {match: vm1, guarantee: %dkbit}
moves: {plug_timeout: 60s, unplug_timeout: 60s}
`

// crowd are guests that send to the outside host over a link that carries less than that, of which a part is guaranteed to vm1.
type crowd struct {
	*rig
	flows           map[string]*lab.Flow
	link, guarantee float64 // bit/s on the wire
	onTaps          bool    // they send there, and not on VFs
}

// newCrowd makes the guests send, and the wire a link that carries a quarter of it: how much emulated guests send depends on the machine.
// Packets to the outside host above that wait in a short queue, and are dropped when it is full, whoever sent them.
func newCrowd(r *rig, window time.Duration, vms ...string) *crowd {
	r.t.Helper()
	c := &crowd{rig: r, flows: map[string]*lab.Flow{}, onTaps: true}
	for _, vm := range vms {
		f, err := r.StartFlow(r.ctx, lab.Traffic{From: vm, To: "ext", PPS: bwPPS, Size: bwSize, Gap: time.Minute})
		r.must(err)
		c.flows[vm] = f
	}
	_, sent := c.shares(window)
	c.link = total(sent) / 4
	c.guarantee = c.link / 2
	r.run(`modprobe ifb numifbs=0; ip netns exec ext sh -ec '
		ip link add slow type ifb
		ip link set slow up
		tc qdisc add dev slow root handle 1: htb default 1
		tc class add dev slow parent 1: classid 1:1 htb rate %[1]dbit ceil %[1]dbit burst 3k cburst 3k overhead 24
		tc qdisc add dev slow parent 1:1 bfifo limit 16k
		tc qdisc add dev wire0 ingress
		tc filter add dev wire0 parent ffff: protocol ip matchall action mirred egress redirect dev slow'`, int(c.link))
	return c
}

// config is the daemon's, with changes of its text.
func (c *crowd) config(changes ...string) string {
	return strings.NewReplacer(changes...).Replace(fmt.Sprintf(guarantee, int(c.link/1000), int(c.guarantee/1000)))
}

// reading is a packet counter and when it was read: halfway between the question and the answer, which may take seconds on a busy machine.
type reading struct {
	at      time.Time
	packets uint64
}

func (r *rig) read(counter func(context.Context) (uint64, error)) reading {
	r.t.Helper()
	begin := time.Now()
	n, err := counter(r.ctx)
	r.must(err)
	return reading{begin.Add(time.Since(begin) / 2), n}
}

// bitRate returns the mean rate between two readings, in bit/s on the wire.
func bitRate(from, to reading) float64 {
	return float64(to.packets-from.packets) * bwWire / to.at.Sub(from.at).Seconds()
}

// shares measures for some time what arrives from each guest, and what each sent, in bit/s on the wire.
func (c *crowd) shares(window time.Duration) (arrived, sent map[string]float64) {
	c.t.Helper()
	count := func() map[string][2]reading {
		out := map[string][2]reading{}
		for vm, f := range c.flows {
			sent := f.Sent
			if c.onTaps { // a busy guest takes seconds to answer
				sent = func(context.Context) (uint64, error) {
					return strconv.ParseUint(c.run("cat /sys/class/net/%s/statistics/rx_packets", lab.Tap(vm)), 10, 64)
				}
			}
			out[vm] = [2]reading{c.read(f.Received), c.read(sent)}
		}
		return out
	}
	before := count()
	time.Sleep(window) // measures arrivals over a fixed time
	after := count()
	arrived, sent = map[string]float64{}, map[string]float64{}
	for vm := range c.flows {
		arrived[vm], sent[vm] = bitRate(before[vm][0], after[vm][0]), bitRate(before[vm][1], after[vm][1])
	}
	return arrived, sent
}

func total(of map[string]float64) (sum float64) {
	for _, v := range of {
		sum += v
	}
	return sum
}

// kept checks that vm1 gets its guarantee, or all that it sends, and that the others get most of the rest, while all send that many times
// what the link carries.
func (c *crowd) kept(where string, window time.Duration, load, least, used float64) {
	c.t.Helper()
	var arrived, sent map[string]float64
	var offered float64
	for try := 0; ; try++ { // emulated guests may send little for a while
		arrived, sent = c.shares(window)
		offered = total(sent)
		if sent["vm1"] >= 0.75*c.guarantee && offered >= load*c.link {
			break
		}
		c.t.Logf("%s: vm1 sends %.0f kbit/s, all send %.0f", where, sent["vm1"]/1e3, offered/1e3)
		if try == 4 {
			c.t.Fatalf("%s: their guests, or limits of ours, keep VMs from sending what shows that a guarantee of %.0f kbit/s is kept\n%s", where,
				c.guarantee/1e3, c.run("sluice bw; sluice bw vm1"))
		}
	}
	sum := total(arrived)
	text := fmt.Sprintf("%s: of vm1 arrive %.0f kbit/s of %.0f sent and %.0f guaranteed, of all %.0f kbit/s of %.0f through a link of %.0f", where,
		arrived["vm1"]/1e3, sent["vm1"]/1e3, c.guarantee/1e3, sum/1e3, offered/1e3, c.link/1e3)
	c.t.Log(text)
	if want := least * min(sent["vm1"], c.guarantee); arrived["vm1"] < want {
		c.t.Errorf("%s: less than %.0f\n%s", text, want/1e3, c.run("sluice bw; sluice bw vm1; sluice bw vm2"))
	}
	if sum < used*min(offered, c.link) {
		c.t.Errorf("%s: the link is not used", text)
	}
}

// heldBy waits until that enforcer holds a limit of each of these VMs on that path.
func (r *rig) heldBy(by, path string, vms ...string) {
	r.t.Helper()
	r.eventually(60*time.Second, fmt.Sprintf("%s limits %v on %s", by, vms, path), func() error {
		b, err := r.client.Bandwidth(r.ctx)
		if err != nil {
			return err
		}
		held := map[string]bool{}
		for i := range b.NICs {
			for _, e := range b.NICs[i].Enforced {
				if e.By == by && e.Path == path && e.Error == "" {
					held[b.NICs[i].VM] = true
				}
			}
		}
		for _, vm := range vms {
			if !held[vm] {
				return fmt.Errorf("not %s", vm)
			}
		}
		return nil
	})
}

var guaranteeAll = flag.Bool("guarantee-all", false, "try guarantees on VFs and through moves, too: 10 minutes more")

// A guest keeps its guarantee against three guests without one, on a link that all of them saturate: on virtio and, in the long form,
// on VFs and during a plug and an unplug.
func TestGuarantee(t *testing.T) {
	vms := []string{"vm1", "vm2", "vm3", "vm4"}
	const window = 20 * time.Second
	// What the link carries is not known yet; nothing is limited.
	unlimited := strings.Replace(fmt.Sprintf(guarantee, 1000, 500), "bandwidth: {", "bandwidth: {enabled: false, ", 1)
	c := newCrowd(newRig(t, unlimited, vms...), window, vms...)
	arrived, sent := c.shares(window)
	t.Logf("without limits: %.0f kbit/s of vm1 arrive of %.0f sent, and %.0f in all of %.0f, through a link of %.0f", arrived["vm1"]/1e3,
		sent["vm1"]/1e3, total(arrived)/1e3, total(sent)/1e3, c.link/1e3)
	if arrived["vm1"] > 0.8*c.guarantee || total(sent) < 1.5*c.link {
		t.Fatalf("without a guarantee of %.0f kbit/s it gets %.0f, so this shows nothing", c.guarantee/1e3, arrived["vm1"]/1e3)
	}

	c.configure(c.config())
	c.run("sluice reload")
	c.heldBy("htb", "virtio", "vm2", "vm3", "vm4")
	c.kept("on virtio", window, 1.5, 0.95, 0.8)

	if !*guaranteeAll {
		return
	}

	c.onTaps = false
	for _, vm := range vms {
		c.run("sluice pin %s", vm)
	}
	c.holding(240*time.Second, vms...)
	c.idle(60 * time.Second)
	c.heldBy("guest-htb", "vf", "vm2", "vm3", "vm4")
	c.kept("on VFs", window, 0, 0.95, 0.6) // a limit in a guest holds back what it sends; what guests send is read every other second
	for _, one := range []struct{ verb, where string }{{"release", "through an unplug"}, {"pin", "through a plug"}} {
		c.run("sluice %s vm1", one.verb)
		c.kept(one.where, window, 0, 0.9, 0.6)
		c.idle(60 * time.Second)
	}
	t.Log(c.run("sluice bw"))

	// Trusting the driver, the daemon sets its VF rates instead, and reads them back from the kernel.
	c.configure(c.config(", vf_rates: none", ""))
	c.run("sluice reload")
	c.heldBy("max_tx_rate", "vf", "vm2", "vm3", "vm4")
	c.eventually(30*time.Second, "the kernel shows the rates of three VFs", func() error {
		if n := c.run("ip link show pf0 | grep -c max_tx_rate || true"); n < "3" {
			return fmt.Errorf("of %s", n)
		}
		return nil
	})

	// However the daemon ends, no guest stays limited.
	c.must(c.proc.Signal(c.ctx, "TERM"))
	c.must(c.proc.Wait(c.ctx))
	if left := c.run("ip link show pf0 | grep max_tx_rate || true"); left != "" {
		t.Errorf("VF rates that the daemon left: %s", left)
	}
	for _, vm := range vms { // a limit in a busy guest that did not answer in time ends with its lease
		c.eventually(60*time.Second, vm+" is limited by nobody", func() error {
			out, err := c.GuestExec(c.ctx, vm, "tc qdisc show")
			if err == nil && strings.Contains(out, "htb") {
				err = fmt.Errorf("it still has %s", out)
			}
			return err
		})
	}
	c.start()
	c.clean()
}
