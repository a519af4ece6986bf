package scenario

import (
	"context"
	"testing"
	"time"

	"sluice/internal/config"
)

// A copy takes its VM's part of the path, of which others take more from 10 s on, and then it ends. A packet's latency follows the
// utilisation of the path, by packets and by the VMs on it.
func TestCopyAndQueueOnVirtio(t *testing.T) {
	s, err := Parse(config.Document{Name: "copy.yaml", Data: []byte(`
duration: 80s
pfs: [{name: pf0, vfs: 1}]
vms:
  - {name: scp, load: {pps: 5000, packet: 1000, copy_mb: 30, cpu: 0.5, compute: 0.25}}
  - {name: other, from: 10s, load: {pps: 500, packet: 1000}}
  - {name: late, from: 70s}
path: {virtio: 1200, virtio_overhead: 100}
latency: {vf: 10us, boost: 50}
policies: [{name: none}]
show: {all: true, groups: true, scores: true, cpu: true}
`)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(context.Background(), RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ph := r.Policies[0].Phases
	if len(ph) != 3 || ph[0].Until != 10*time.Second || ph[1].Until != 70*time.Second {
		t.Fatalf("phases %+v, want them to end where VMs come", ph)
	}
	// 1,100 packets/s for 10 s, then 500 beside the other's 500: 11 MB, and 38 s for the rest.
	if f := ph[1].Groups[0].Files; f.Done != 1 || f.Mean < 47.9 || f.Mean > 48.1 {
		t.Errorf("files %+v, want one of 48 s", f)
	}
	if f := ph[1].All.Files; f.Done != 1 || ph[2].All.Files.Done != 0 {
		t.Errorf("all files %+v, want that one", f)
	}
	// Full until the copy ends; then 3 x 100 for the VMs and 500 packets of 1,200: 20 us / (1 - 800/1200).
	if full := ph[0].All.Latency[1]; full != 20*mostQueue {
		t.Errorf("a full path takes %v us, want %v", full, 20*mostQueue)
	}
	if got := ph[2].All.Latency[3]; got < 59.9 || got > 60.1 {
		t.Errorf("a path in use by two thirds takes %v us, want 60", got)
	}
	if io := ph[2].Scores[0].IODegree; io != 75 {
		t.Errorf("after the copy io_degree is %v, want 75", io)
	}
	if n, pps := ph[2].All.VMs, ph[2].Groups[0].PPS; n != 3 || pps != 0 {
		t.Errorf("%d VMs, and %v packets/s of a copy that is over", n, pps)
	}
}
