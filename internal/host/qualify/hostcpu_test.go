package qualify

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/api/v1"
	"sluice/internal/model"
)

// sizes are the costs of virtio and the VF by packet size, in ns; below 0: not measured.
func cpuRows(sizes []int, virtio, vf []float64) (rows []api.PathBySize) {
	seconds := func(ns float64) *float64 {
		if ns < 0 {
			return nil
		}
		ns *= 1e-9
		return &ns
	}
	for i := range sizes {
		rows = append(rows, api.PathBySize{
			Size: sizes[i], Virtio: api.PathFigure{HostCPU: seconds(virtio[i])},
			VF: api.PathFigure{HostCPU: seconds(vf[i])},
		})
	}
	return rows
}

func TestHostCPU(t *testing.T) {
	for _, c := range []struct {
		name           string
		sizes          []int
		virtio, vf     []float64
		packet, kiloby float64 // ns; both 0: none
	}{
		{"nothing was measured", nil, nil, nil, 0, 0},
		{"one size makes no line", []int{64}, []float64{900}, []float64{100}, 0, 0},
		{"the same size twice makes none", []int{64, 64}, []float64{900, 800}, []float64{100, 100}, 0, 0},
		{"a line, less what the VF costs", []int{100, 1100}, []float64{1150, 1650}, []float64{100, 100}, 1000, 500},
		{
			"sizes without a figure count for nothing",
			[]int{100, 600, 1100, 1200},
			[]float64{1150, -1, 1650, 9999},
			[]float64{100, 5, 100, -1},
			1000, 500,
		},
		{"larger ones are no dearer", []int{100, 1100}, []float64{1200, 1100}, []float64{0, 0}, 1150, 0},
		{"nothing for the packet itself", []int{1000, 2000}, []float64{100, 300}, []float64{0, 0}, 0, (100 + 2*300) / 5.},
		{"virtio is no dearer than the VF", []int{100, 1100}, []float64{900, 900}, []float64{1000, 1000}, 0, 0},
	} {
		got := hostCPU(cpuRows(c.sizes, c.virtio, c.vf))
		if got == nil {
			got = &api.PacketCPU{}
		}
		if math.Abs(got.Packet*1e9-c.packet) > 1e-6 || math.Abs(got.Kilobyte*1e9-c.kiloby) > 1e-6 {
			t.Errorf("%s: %g and %g ns, want %g and %g", c.name, got.Packet*1e9, got.Kilobyte*1e9, c.packet, c.kiloby)
		}
	}
}

// For any measurement, no part is negative, and if neither part is bounded, together they match the mean of the measured cost.
func TestHostCPUIsACost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := []int{64, 256, 512, 1024, 1472}
		figure := rapid.SliceOfN(rapid.Float64Range(0, 1e5), len(sizes), len(sizes))
		virtio, vf := figure.Draw(t, "virtio"), figure.Draw(t, "vf")
		rows := cpuRows(sizes, virtio, vf)
		got := hostCPU(rows)
		if got == nil {
			return
		}
		if !(got.Packet >= 0 && got.Kilobyte >= 0 && got.Packet+got.Kilobyte > 0) {
			t.Fatalf("%+v", got)
		}
		mean, fitted := 0.0, 0.0
		for i := range rows {
			mean += virtio[i] - vf[i]
			fitted += (got.Packet + got.Kilobyte*float64(sizes[i])/1000) * 1e9
		}
		if got.Packet > 0 && math.Abs(mean-fitted) > 1e-6*math.Abs(mean)+1e-3 {
			t.Fatalf("%g ns of all sizes together, measured were %g", fitted, mean)
		}
	})
}

func TestPacketCost(t *testing.T) {
	old := api.Qualification{At: time.Unix(1, 0), HostCPU: &api.PacketCPU{Packet: 9e-6, Kilobyte: 1e-6}}
	newer := api.Qualification{At: time.Unix(2, 0), HostCPU: &api.PacketCPU{Packet: 1.5e-6, Kilobyte: 0.25e-6}}
	without := api.Qualification{At: time.Unix(3, 0)}
	want := model.PacketCost{Packet: 1500, Kilobyte: 250}
	for _, list := range [][]api.Qualification{{old, newer, without}, {without, newer, old}, {newer}} {
		if got, ok := PacketCost(list); got != want || !ok {
			t.Errorf("%+v, %v, want that of the newest that has one", got, ok)
		}
	}
	for name, cpu := range map[string]*api.PacketCPU{
		"none": nil, "zero": {}, "negative": {Packet: -1e-6, Kilobyte: math.Inf(-1)}, "no figure": {Packet: math.NaN(), Kilobyte: math.Inf(1)},
		"seconds": {Packet: 2},
	} {
		if got, ok := PacketCost([]api.Qualification{{HostCPU: cpu}}); ok || got != (model.PacketCost{}) {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
}

// The cost of a packet is that of the flood, divided by all packets of the completed round trips.
func TestCostOfAPacket(t *testing.T) {
	trips := []time.Duration{time.Millisecond}
	q := Judge(&Measured{PF: "pf0", Scratch: &Scratch{VM: "spare", Paths: []Path{
		{Size: 100, Trips: trips, Sent: 120, Done: 100, During: time.Second, CPU: 230 * time.Microsecond},
		{Size: 100, VF: true, Trips: trips, Sent: 100, Done: 100, During: time.Second, CPU: 20 * time.Microsecond},
		{Size: 1100, Trips: trips, Sent: 100, Done: 100, During: time.Second, CPU: 330 * time.Microsecond},
		{Size: 1100, VF: true, Trips: trips, Sent: 100, Done: 100, During: time.Second, CPU: 20 * time.Microsecond},
		{Size: 1400, Trips: trips, Sent: 100, Done: 100, During: time.Second, NoCPU: "nobody knows"},
		{Size: 1400, VF: true, Trips: trips, Sent: 100, During: time.Second, NoCPU: "nobody knows"},
		{Size: 1450, Trips: trips, Sent: 100, During: time.Second, CPU: time.Second},
		{Size: 1450, VF: true, Trips: trips, Sent: 100, Done: 100, During: time.Second},
	}}})
	if len(q.Paths) != 4 {
		t.Fatalf("%+v", q.Paths)
	}
	if virtio, vf := *q.Paths[0].Virtio.HostCPU, *q.Paths[0].VF.HostCPU; math.Abs(virtio-1.15e-6) > 1e-12 || math.Abs(vf-0.1e-6) > 1e-12 {
		t.Errorf("%g s on virtio, %g s on the VF", virtio, vf)
	}
	if q.Paths[2].Virtio.HostCPU != nil || q.Paths[2].VF.HostCPU != nil || q.Paths[3].Virtio.HostCPU != nil {
		t.Errorf("what was not measured, or of no packet, has a figure: %+v", q.Paths[2:])
	}
	if c := q.HostCPU; c == nil || math.Abs(c.Packet-1e-6) > 1e-12 || math.Abs(c.Kilobyte-0.5e-6) > 1e-12 {
		t.Errorf("%+v, want 1 us and 0.5 us", c)
	}
	if len(q.Failed) != 1 || q.Failed[0] != "what packets cost the host in CPU time: nobody knows" {
		t.Errorf("failed: %q, want it once", q.Failed)
	}
}
