package observe

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/host/libvirt"
	"sluice/internal/model"
)

var (
	epoch    = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tenGig   = limitOf(10e9, 1)
	testGaps = gaps{min: 50 * time.Millisecond, max: 30 * time.Second}
)

// at is a sample at so many seconds after the epoch.
func at(sec float64, boot uint64, c counts) sample {
	return sample{at: epoch.Add(time.Duration(sec * float64(time.Second))), boot: boot, count: c}
}

func TestMeter(t *testing.T) {
	base := counts{1000, 2000, 100_000, 200_000}
	next := counts{1100, 2010, 150_000, 201_000}
	for _, c := range []struct {
		name string
		then sample
		want model.Traffic
	}{
		{"one second", at(1, 7, next), model.Traffic{RxPPS: 100, TxPPS: 10, RxBytes: 50_000, TxBytes: 1000, Known: true}},
		{"late", at(10, 7, next), model.Traffic{RxPPS: 10, TxPPS: 1, RxBytes: 5000, TxBytes: 100, Known: true}},
		{"idle", at(1, 7, base), model.Traffic{Known: true}},
		{"too late", at(31, 7, next), model.Traffic{Note: "no sample for too long"}},
		{"same moment", at(0, 7, next), model.Traffic{Note: "first sample"}},
		{"too early", at(0.01, 7, next), model.Traffic{Note: "first sample"}},
		{"too early after a reset", at(0.01, 7, counts{}), model.Traffic{Note: "the counters went back"}},
		{"clock back", at(-1, 7, next), model.Traffic{Note: "the clock went back"}},
		{"another device", at(1, 8, next), model.Traffic{Note: "the device is a new one"}},
		{"reset", at(1, 7, counts{}), model.Traffic{Note: "the counters went back"}},
		{"one counter back", at(1, 7, counts{1100, 1999, 150_000, 201_000}), model.Traffic{Note: "the counters went back"}},
		{
			"jump in packets", at(1, 7, counts{1000 + 15e6, 2000, 100_000, 200_000}),
			model.Traffic{Note: "the counters jumped by more than the link carries"},
		},
		{
			"jump in bytes", at(1, 7, counts{1001, 2000, 100_000 + 1251e6, 200_000}),
			model.Traffic{Note: "the counters jumped by more than the link carries"},
		},
		{"line rate", at(1, 7, counts{1001, 2000, 100_000 + 1250e6, 200_000}), model.Traffic{RxPPS: 1, RxBytes: 1250e6, Known: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m meter
			m.add(at(0, 7, base), testGaps, tenGig)
			if got := m.add(c.then, testGaps, tenGig); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// After anything that invalidates one figure, the next valid pair of samples gives one again.
func TestMeterRecovers(t *testing.T) {
	var m meter
	m.add(at(0, 1, counts{rxPackets: 500}), testGaps, tenGig)
	m.add(at(1, 1, counts{rxPackets: 5}), testGaps, tenGig)
	if got := m.add(at(3, 1, counts{rxPackets: 25}), testGaps, tenGig); got.RxPPS != 10 || !got.Known {
		t.Errorf("got %+v, want 10 packets/s", got)
	}
}

// A figure survives a second reading within the minimum gap, and the next one spans the whole time since the older sample.
func TestMeterKeepsFigureWhenAskedTwice(t *testing.T) {
	var m meter
	m.add(at(0, 1, counts{}), testGaps, tenGig)
	m.add(at(1, 1, counts{rxPackets: 100}), testGaps, tenGig)
	if got := m.add(at(1.01, 1, counts{rxPackets: 900}), testGaps, tenGig); got.RxPPS != 100 {
		t.Errorf("second look: got %+v, want 100 packets/s", got)
	}
	if got := m.add(at(2, 1, counts{rxPackets: 1000}), testGaps, tenGig); got.RxPPS != 900 {
		t.Errorf("after it: got %+v, want 900 packets/s", got)
	}
}

// anySamples draws a history with every error that occurs in practice.
func anySamples(t *rapid.T) []sample {
	var (
		out []sample
		now = epoch
		c   counts
		dev = uint64(1)
	)
	for range rapid.IntRange(1, 30).Draw(t, "samples") {
		now = now.Add(time.Duration(rapid.Int64Range(-2e9, 4e9).Draw(t, "dt")))
		switch rapid.IntRange(0, 9).Draw(t, "what") {
		case 0:
			c = counts{}
		case 1:
			dev, c = dev+1, counts{}
		case 2:
			u := rapid.Uint64()
			c = counts{u.Draw(t, "rp"), u.Draw(t, "tp"), u.Draw(t, "rb"), u.Draw(t, "tb")}
		case 3:
			c.rxBytes &= math.MaxUint32
		case 4:
			now = now.Add(time.Minute)
		default:
			u := rapid.Uint64Range(0, 2e9)
			c.rxPackets += u.Draw(t, "drp") / 100
			c.txPackets += u.Draw(t, "dtp") / 100
			c.rxBytes += u.Draw(t, "drb")
			c.txBytes += u.Draw(t, "dtb")
		}
		out = append(out, sample{now, dev, c})
	}
	return out
}

func TestMeterNeverAbsurd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m meter
		l := limitOf(rapid.SampledFrom([]uint64{0, 1e9, 10e9, 800e9}).Draw(t, "speed"), 1)
		for _, s := range anySamples(t) {
			r := m.add(s, testGaps, l)
			for _, x := range []float64{r.RxPPS, r.TxPPS, r.RxBytes, r.TxBytes} {
				if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
					t.Fatalf("absurd figure %v in %+v", x, r)
				}
				if !r.Known && x != 0 {
					t.Fatalf("unknown, yet a figure: %+v", r)
				}
			}
			if r.RxPPS > l.pps || r.TxPPS > l.pps || r.RxBytes > l.bytes || r.TxBytes > l.bytes {
				t.Fatalf("%+v is above %+v", r, l)
			}
		}
	})
}

// simpleRate computes the expected result from the whole history: it finds the sample with which the last one must be compared.
func simpleRate(h []sample, g gaps, l limit) (model.Traffic, bool) {
	last := len(h) - 1
	base := simpleBase(h, last, g)
	if base < 0 {
		return model.Traffic{}, false
	}
	if gap := h[last].at.Sub(h[base].at); gap >= 0 && (gap < g.min || gap == 0) {
		if h[base].boot != h[last].boot || !went(h[base], h[last]) {
			return model.Traffic{}, false
		}
		return simpleRate(h[:base+1], g, l)
	}
	a, b := h[base], h[last]
	sec := b.at.Sub(a.at).Seconds()
	if a.boot != b.boot || sec < 0 || b.at.Sub(a.at) > g.max || !went(a, b) {
		return model.Traffic{}, false
	}
	r := model.Traffic{
		RxPPS: float64(b.count.rxPackets-a.count.rxPackets) / sec, TxPPS: float64(b.count.txPackets-a.count.txPackets) / sec,
		RxBytes: float64(b.count.rxBytes-a.count.rxBytes) / sec, TxBytes: float64(b.count.txBytes-a.count.txBytes) / sec,
	}
	if max(r.RxPPS, r.TxPPS) > l.pps || max(r.RxBytes, r.TxBytes) > l.bytes {
		return model.Traffic{}, false
	}
	return r, true
}

// simpleBase returns the latest earlier sample that was not itself too early to count.
func simpleBase(h []sample, i int, g gaps) int {
	for j := i - 1; j >= 0; j-- {
		b := simpleBase(h, j, g)
		if b < 0 || h[j].boot != h[b].boot || !went(h[b], h[j]) {
			return j
		}
		if gap := h[j].at.Sub(h[b].at); gap < 0 || gap > 0 && gap >= g.min {
			return j
		}
	}
	return -1
}

// went reports whether no counter went back from a to b.
func went(a, b sample) bool {
	return b.count.rxPackets >= a.count.rxPackets && b.count.txPackets >= a.count.txPackets &&
		b.count.rxBytes >= a.count.rxBytes && b.count.txBytes >= a.count.txBytes
}

func TestMeterAgainstSimpleCode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m meter
		h := anySamples(t)
		h = h[:min(len(h), 12)] // simpleBase is exponential
		for i, s := range h {
			got := m.add(s, testGaps, tenGig)
			want, known := simpleRate(h[:i+1], testGaps, tenGig)
			want.Known, got.Note = known, ""
			if got != want {
				t.Fatalf("sample %d of %+v: got %+v, want %+v", i, h, got, want)
			}
		}
	})
}

func TestMeterExactOnConstantRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m meter
		pps := rapid.Uint64Range(0, 1_000_000).Draw(t, "pps")
		size := rapid.Uint64Range(64, 1500).Draw(t, "size")
		now := time.Duration(0)
		for i := range rapid.IntRange(2, 20).Draw(t, "samples") {
			// Whole milliseconds, and a rate in whole packets per millisecond, keep the counters exact at every instant.
			now += time.Duration(rapid.IntRange(50, 29_000).Draw(t, "jitter")) * time.Millisecond
			n := pps * uint64(now.Milliseconds())
			got := m.add(sample{epoch.Add(now), 1, counts{n, n / 2 * 2, n * size, 0}}, testGaps, limit{1e12, 1e15})
			want := float64(pps) * 1000
			if i > 0 && (!got.Known || math.Abs(got.RxPPS-want) > want*1e-9 || math.Abs(got.RxBytes-want*float64(size)) > want*float64(size)*1e-9) {
				t.Fatalf("got %+v, want %v packets/s of %d bytes", got, want, size)
			}
		}
	})
}

func TestCPUMeter(t *testing.T) {
	sec := time.Second
	for _, c := range []struct {
		name  string
		dt    time.Duration
		used  time.Duration
		vcpus int
		cpus  float64
		known bool
	}{
		{"half", 2 * sec, 10*sec + sec, 4, 0.5, true},
		{"idle", sec, 10 * sec, 4, 0, true},
		{"emulator threads on top", sec, 10*sec + 5*sec, 4, 4, true},
		{"far too much", sec, 10*sec + 11*sec, 4, 0, false},
		{"went back: the machine was started anew", sec, sec, 4, 0, false},
		{"clock back", -sec, 11 * sec, 4, 0, false},
		{"too late", 31 * sec, 11 * sec, 4, 0, false},
		{"no vCPU count", sec, 10 * sec, 0, 0, false},
		{"nonsense vCPU count", sec, 10 * sec, -3, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m cpuMeter
			m.add(epoch, 10*sec, c.vcpus, testGaps)
			cpus, known := m.add(epoch.Add(c.dt), c.used, c.vcpus, testGaps)
			if cpus != c.cpus || known != c.known {
				t.Errorf("got %v %v, want %v %v", cpus, known, c.cpus, c.known)
			}
		})
	}
}

func TestCPUMeterNeverAbsurd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m cpuMeter
		v := rapid.IntRange(-1, 64).Draw(t, "vcpus")
		for range rapid.IntRange(1, 20).Draw(t, "samples") {
			now := epoch.Add(time.Duration(rapid.Int64Range(0, 100e9).Draw(t, "now")))
			cpus, known := m.add(now, time.Duration(rapid.Int64().Draw(t, "used")), v, testGaps)
			if math.IsNaN(cpus) || cpus < 0 || cpus > float64(max(v, 0)) && known || !known && cpus != 0 {
				t.Fatalf("%v CPUs (known %v) of %d", cpus, known, v)
			}
		}
	})
}

// The longest interval between Snapshots that the config allows still gives rates.
func TestSlowSamplesMakeRates(t *testing.T) {
	for _, sample := range []time.Duration{time.Second, 20 * time.Second, 31 * time.Second, time.Minute} {
		f := newFakeWorld()
		f.addPF("pf0", "br0", 4, counting)
		f.addVM(1, "br0")
		run(t, f, Options{Pool: poolAll, Sample: sample}, func(t *testing.T, s *Source) {
			snapshot(t, s)
			time.Sleep(sample)
			f.tapMoves(1, 6000, 0)
			f.set(func() { f.stats["id-001"] = libvirt.Stat{CPUTime: sample, CPUKnown: true, State: model.VMRunning} })
			vm := snapshot(t, s).VMs[0]
			got := vm.NICs[0].Virtio
			if want := 6000 / sample.Seconds(); !got.Known || math.Abs(got.RxPPS-want) > 1 {
				t.Errorf("every %s: %+v, want %.0f packets/s", sample, got, want)
			}
			if sample > 5*time.Second && (!vm.CPUKnown || math.Abs(vm.CPU-1) > 0.01) {
				t.Errorf("every %s: CPU %v (%v), want 1", sample, vm.CPU, vm.CPUKnown)
			}
		})
	}
}
