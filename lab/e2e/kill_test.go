//go:build lab

package e2e

import (
	"fmt"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/lab"
)

// deadFor is how long nothing manages the host after the daemon was killed: five times what a guest may lose meanwhile, since the emulator
// stands still for a second at times.
const deadFor = 5 * time.Second

// A guest stays reachable from outside and from the bridge while its VF comes or goes, even if the daemon is killed in the middle and
// stays dead.
func TestKillDuringMoves(t *testing.T) {
	r := faultRig{newRig(t, onlyByHand, "vm1", "vm2")}
	const pps = 50
	flows := map[string]*lab.Flow{}
	for _, peer := range []string{"ext", "host"} {
		f, err := r.StartFlow(r.ctx, lab.Traffic{From: peer, To: "vm1", PPS: pps, Size: 64, Gap: 50 * time.Millisecond})
		r.must(err)
		flows[peer] = f
	}
	type phase struct {
		name     string
		from, to time.Time
	}
	var phases []phase
	for i := range 3 {
		for _, verb := range []api.Verb{api.VerbPin, api.VerbRelease} {
			after := time.Duration(i) * 500 * time.Millisecond // another step each time
			p := phase{name: fmt.Sprintf("killed %s after a move began to %s", after, verb), from: time.Now()}
			_, err := r.client.Do(r.ctx, verb, api.Request{VM: "vm1"})
			r.must(err)
			r.underWay()
			time.Sleep(after)
			r.run("pkill -9 -x sluiced")
			time.Sleep(deadFor)
			p.to = time.Now()
			phases = append(phases, p)
			r.start()
			if verb == api.VerbPin {
				r.holding(90*time.Second, "vm1")
			} else {
				r.holding(90 * time.Second)
			}
			r.idle(60 * time.Second)
			r.sound()
		}
	}
	for peer, f := range flows {
		rep, err := f.Stop(r.ctx)
		r.must(err)
		t.Logf("from %s: %s", peer, rep)
		for _, p := range phases {
			lost, longest := rep.During(p.from, p.to)
			t.Logf("from %s, %s: %d packets of %d a second lost, longest gap %s", peer, p.name, lost, pps, longest.Round(time.Millisecond))
			if lost > pps {
				t.Errorf("from %s, %s: %d packets lost, want at most %d, those of a second", peer, p.name, lost, pps)
			}
		}
	}
}
