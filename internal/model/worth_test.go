package model

import (
	"math"
	"testing"
	"time"
)

func TestWorthOfSensitivity(t *testing.T) {
	for _, c := range []struct {
		worth Worth
		of    Sensitivity
		want  float64
	}{
		{Worth{}, "", 1},
		{Worth{}, SensitivityNormal, 1},
		{Worth{}, SensitivityHigh, DefaultLatencyWorth},
		{Worth{}, SensitivityLow, 1 / DefaultLatencyWorth},
		{Worth{Latency: 5}, "", 1},
		{Worth{Latency: 5}, SensitivityHigh, 5},
		{Worth{Latency: 5}, SensitivityLow, 0.2},
		{Worth{Latency: 1}, SensitivityHigh, 1},
	} {
		if got := c.worth.OfSensitivity(c.of); got != c.want {
			t.Errorf("%+v, %q: %v, want %v", c.worth, c.of, got, c.want)
		}
	}
}

func TestWorthOfLoad(t *testing.T) {
	cost := PacketCost{Packet: 1000 * time.Nanosecond, Kilobyte: 500 * time.Nanosecond}
	for _, c := range []struct {
		name       string
		worth      Worth
		pps, bytes float64
		want       float64
	}{
		{"nothing was said", Worth{}, 10, 15000, 1},
		{"not asked for", Worth{Cost: cost}, 10, 15000, 1},
		{"nothing was measured", Worth{CPU: true}, 10, 15000, 1},
		{"no packet", Worth{CPU: true, Cost: cost}, 0, 0, 1},
		{"packets whose bytes nothing counts", Worth{CPU: true, Cost: PacketCost{Kilobyte: time.Microsecond}}, 500000, 0, 1},
		{"bytes without packets", Worth{CPU: true, Cost: cost}, 0, 1500, 1},
		{"the size that counts one", Worth{CPU: true, Cost: cost}, 10, 5120, 1},
		{"large ones cost more", Worth{CPU: true, Cost: cost}, 10, 15000, 1750. / 1256},
		{"small ones less", Worth{CPU: true, Cost: cost}, 10, 640, 1032. / 1256},
		{"none is larger than IP's largest", Worth{CPU: true, Cost: cost}, 1, 1e12, (1000 + 0.5*65535) / 1256},
		{"bytes alone cost", Worth{CPU: true, Cost: PacketCost{Kilobyte: time.Microsecond}}, 10, 10240, 2},
		{"packets alone cost", Worth{CPU: true, Cost: PacketCost{Packet: time.Microsecond}}, 10, 15000, 1},
		{"no figures", Worth{CPU: true, Cost: cost}, math.NaN(), math.NaN(), 1},
	} {
		if got := c.worth.OfLoad(c.pps, c.bytes); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A sensitivity is not a weight: the input of bandwidth control is not affected.
func TestSensitivityIsNoPartOfAnSLA(t *testing.T) {
	vm := &VM{ID: "a", Name: "web-1", NICs: []NIC{{Alias: "ua-net0"}}}
	rules := Rules{
		VMs:     []VMRule{{Match: "web-*", Class: "gold", SLA: SLA{Weight: 2}}},
		Classes: []Class{{Name: "gold", SLA: SLA{Guarantee: Rate{Bits: 1e9}}}},
	}
	want := rules.SLA(vm, &vm.NICs[0])
	rules.VMs[0].Sensitivity, rules.Classes[0].Sensitivity = SensitivityHigh, SensitivityLow
	rules.Worth = Worth{Latency: 9, CPU: true, Cost: PacketCost{Packet: 1}}
	if got := rules.SLA(vm, &vm.NICs[0]); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := rules.For(vm.ID, vm.Name); got.Weight != 1 || got.Sensitivity != SensitivityHigh {
		t.Errorf("a rule's sensitivity comes before its class's, and neither changes the weight: %+v", got)
	}
	rules.VMs[0].Sensitivity = ""
	if got := rules.For(vm.ID, vm.Name); got.Sensitivity != SensitivityLow {
		t.Errorf("the class's counts where no rule says one: %+v", got)
	}
}
