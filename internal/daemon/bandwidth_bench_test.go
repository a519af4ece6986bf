package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/control/bandwidth"
	"sluice/internal/control/loop"
	"sluice/internal/daemon/runner"
	"sluice/internal/host/actuate"
	"sluice/internal/host/kernel"
	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/host/observe"
	"sluice/internal/model"
)

// BenchmarkBandwidth measures what the bandwidth controller costs for 100 VMs with real taps, counters, programs and trees, in %
// of a core. Traffic is added to the counters, so that the cost of sending is not included; the demand of each VM changes about
// every second. SLUICE_BENCH_BANDWIDTH=1 means that this process is in its own network and mount namespaces.
func BenchmarkBandwidth(b *testing.B) {
	if os.Getenv("SLUICE_BENCH_BANDWIDTH") != "1" {
		b.Skip("run it by `scripts/measure bwcost`")
	}
	for _, by := range []string{"police", "htb"} {
		for _, period := range []time.Duration{200 * time.Millisecond, 40 * time.Millisecond} {
			b.Run(fmt.Sprintf("%s/%s", by, period), func(b *testing.B) { costOf(b, by, period) })
		}
	}
}

const costVMs = 100

func costOf(b *testing.B, by string, period time.Duration) {
	settling, counting := 5*time.Second, 20*time.Second
	if os.Getenv("SLUICE_BENCH_SHORT") != "" { // whether it works, not what it costs
		settling, counting = time.Second, time.Second
	}
	k, err := kernel.New(kernel.Options{BPFFS: kerneltest.BPFFS(b)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = k.Close() })
	reader, err := k.NewCounterReader()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = reader.Close() })
	snap := tappedHost(b)
	traffic := &addedTraffic{readings: readings{Counters: observe.NewCounters(reader), taps: k}, nics: map[model.NICID]*added{}}
	enforcers := []loop.Enforcer{&noting{actuate.NewPolice(k), traffic}}
	if by == "htb" {
		enforcers = append([]loop.Enforcer{&noting{actuate.NewHTB(k), traffic}}, enforcers...)
	}
	core, err := bandwidth.NewCore(bandwidth.Options{Mode: model.ModeEnforce, Allocator: "waterfill", Period: period})
	if err != nil {
		b.Fatal(err)
	}
	r := (&runner.Bandwidth{Core: core, Counters: traffic, Enforcers: enforcers, Period: period, LiftAll: true}).Init()
	rules := model.Rules{VMs: []model.VMRule{{Match: "*", SLA: model.SLA{Guarantee: model.Rate{Bits: 100e6}}}}}
	r.Follow(time.Now(), bandwidth.World{Snapshot: snap, Rules: rules})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	time.Sleep(settling)
	for b.Loop() {
		used, changes, begun := cpuTime(b), r.View().Changes, time.Now()
		time.Sleep(counting)
		d := time.Since(begun).Seconds()
		b.ReportMetric((cpuTime(b)-used).Seconds()/d*100, "%cpu")
		b.ReportMetric(float64(r.View().Changes-changes)/d/costVMs, "changes/s/VM")
	}
	v := r.View()
	b.ReportMetric(float64(v.Late), "late")
	if v.NICs[0].Enforcer == nil || v.NICs[0].Enforcer[0].By != by || v.NICs[0].Enforcer[0].Error != "" {
		b.Errorf("%+v", v.NICs[0])
	}
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// tappedHost returns a host whose VMs have real taps behind an uplink of 25 Gbit/s.
func tappedHost(b *testing.B) *model.Snapshot {
	kerneltest.NewBridge(b, "br0")
	kerneltest.IP(b, "link add pf0 type veth peer name wire0")
	b.Cleanup(func() { kerneltest.IP(b, "link del pf0") })
	kerneltest.IP(b, "link set pf0 master br0 up")
	snap := &model.Snapshot{PFs: []model.PF{{
		Name: "pf0", Index: indexOf(b, "pf0"), Network: "br0", Speed: 25e9, LinkUp: true, Managed: true,
		Uplink: model.Uplink{Switch: "br0"},
	}}}
	for i := range costVMs {
		tap := fmt.Sprint("tap", i)
		kerneltest.NewPort(b, tap, "br0")
		nic := model.NIC{Alias: "ua-net0", Network: "br0", Tap: tap, TapIndex: indexOf(b, tap), MAC: model.MAC{0x52, 0x54, 0, 0, 1, byte(i)}}
		snap.VMs = append(snap.VMs, model.VM{
			ID: model.VMID(fmt.Sprintf("id-%03d", i)), Name: fmt.Sprintf("v%03d", i), State: model.VMRunning,
			NICs: []model.NIC{nic},
		})
	}
	return snap
}

func indexOf(b *testing.B, name string) int {
	i, err := net.InterfaceByName(name)
	if err != nil {
		b.Fatal(err)
	}
	return i.Index
}

// addedTraffic adds to the counters what VMs would send within their limits.
type addedTraffic struct {
	readings
	mu   sync.Mutex
	nics map[model.NICID]*added
}

// added is what a NIC sends, in bits/s.
type added struct {
	demand, most float64
	change       time.Time
	read         time.Time
	bytes        float64
}

func (a *addedTraffic) Read(ctx context.Context, buf []bandwidth.Reading) ([]bandwidth.Reading, error) {
	buf, err := a.readings.Read(ctx, buf)
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range buf {
		r := &buf[i]
		n := a.nics[r.NIC]
		if n == nil {
			n = &added{read: r.At}
			a.nics[r.NIC] = n
		}
		if r.At.After(n.change) {
			n.demand, n.change = 600e6*rand.Float64(), r.At.Add(time.Duration((0.5+rand.Float64())*float64(time.Second)))
		}
		sends := n.demand
		if n.most > 0 {
			sends = min(sends, n.most)
		}
		const wire = 1538.0 / 1514 // size of a frame on the wire over its counted size
		n.bytes += sends * r.At.Sub(n.read).Seconds() / 8 / wire
		n.read = r.At
		r.TxBytes += uint64(n.bytes)
		r.TxPackets += uint64(n.bytes / 1514)
	}
	return buf, err
}

// noting tells the traffic which limits are applied.
type noting struct {
	loop.Enforcer
	traffic *addedTraffic
}

func (e *noting) Apply(ctx context.Context, snap *model.Snapshot, batch []model.Limit) ([]model.Limit, error) {
	now, err := e.Enforcer.Apply(ctx, snap, batch)
	e.traffic.mu.Lock()
	defer e.traffic.mu.Unlock()
	for i := range now {
		if n := e.traffic.nics[model.NICID{VM: now[i].VM, NIC: now[i].NIC}]; n != nil && now[i].Dir == model.Tx {
			n.most = float64(now[i].Tightest().Bits)
		}
	}
	return now, err
}
