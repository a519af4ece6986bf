package bandwidth

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/model"
)

// What a link has carried is the sum of what it was shown to carry. It never goes back, whatever the NICs do: move between tap and VF,
// get other devices, stop being read, all
// leave.
func TestTotalOfALinkOnlyGrows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, 3)
		bridge := rapid.Bool().Draw(rt, "all on the bridge")
		if !bridge {
			r.plug(2, 0)
		}
		r.follow()
		want, last := 0.0, model.Carried{}
		for range rapid.IntRange(1, 25).Draw(rt, "periods") {
			id := nicOf(rapid.IntRange(0, 2).Draw(rt, "vm"))
			path := rapid.SampledFrom([]model.Path{model.PathVirtio, model.PathVF}).Draw(rt, "path")
			switch rapid.IntRange(0, 8).Draw(rt, "what") {
			case 0:
				if x := r.count[id]; x != nil { // another device
					p := &x[pathIndex(path)]
					p.Device, p.TxBytes, p.TxPackets = p.Device+2, 0, 0
				}
			case 1:
				r.dead[id] = !r.dead[id]
			case 2:
				if bridge { // nobody is behind the PF for a period
					leave := *r.world.Snapshot
					leave.VMs = nil
					r.c.Follow(r.now, World{Snapshot: &leave})
					if len(r.c.View().Links) > 0 {
						rt.Fatal("the link is still there")
					}
					r.follow()
				}
			case 3:
				pf := &r.world.Snapshot.PFs[0]
				pf.LinkUp = !pf.LinkUp
				r.follow()
			default:
				r.send(id, path, rapid.SampledFrom([]float64{0, 1e3, 1e9, 6e9, 8e9}).Draw(rt, "bits"))
			}
			r.tick()
			b := r.c.View()
			l, v := &b.Links[0], &model.View{Snapshot: r.world.Snapshot}
			want += v.Carried(l) / 8 * period.Seconds()
			now := l.Total
			if now.TxBytes < last.TxBytes || now.TxPackets < last.TxPackets || now.RxBytes < last.RxBytes || now.RxPackets < last.RxPackets ||
				math.Abs(now.TxBytes-want) > 1e-6*want {
				rt.Fatalf("%+v after %+v, want %g bytes", now, last, want)
			}
			last = now
		}
	})
}

// The total is in bytes and packets, and both directions are kept apart.
func TestTotalOfALink(t *testing.T) {
	r := newRig(t, 2)
	r.follow()
	r.send(nicOf(0), model.PathVirtio, 4e9)
	r.send(nicOf(1), model.PathVirtio, 2e9)
	r.run(2*time.Second + period) // the first reading has nothing to be compared with
	got := r.c.View().Links[0].Total
	if text := fmt.Sprintf("%.3g %.3g %g %g", got.TxBytes, got.TxPackets, got.RxBytes, got.RxPackets); text != "1.5e+09 9.75e+05 0 0" {
		t.Errorf("got %s", text)
	}
}
