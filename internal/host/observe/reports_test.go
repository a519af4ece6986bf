package observe

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/channel"
	"sluice/internal/host/guest"
	"sluice/internal/model"
)

// said is a report of sluice-guest.
func (g *fakeGuest) said() (out channel.Counters) {
	for _, d := range g.devs() {
		out.Interfaces = append(out.Interfaces, channel.Interface{
			Name: d.Name, MAC: d.MAC.String(), RxPackets: d.RxPackets, TxPackets: d.TxPackets, RxBytes: d.RxBytes, TxBytes: d.TxBytes, Backlog: 1500,
		})
	}
	return out
}

// A guest without an agent whose sluice-guest reports is judged like any other.
func TestGuestThatReports(t *testing.T) {
	for _, every := range []int{1, 5} {
		f, g := guestWorld()
		g.bond = true
		f.dom(1).Ready = model.Unknown
		synctest.Test(t, func(t *testing.T) {
			c := guest.NewCollector(nil)
			s := New(f, f.uplinks(), f, c, Options{Pool: poolAll, Reports: c.Reports})
			defer s.Close()
			n := 0
			silent := func() {
				g.vf.moves(2000)
				g.virtio.moves(7)
				f.tapMoves(1, 7, 7)
			}
			reports := func() {
				silent()
				if n++; n%every == 0 {
					c.Report("id-001", g.said())
				}
			}
			if got := seconds(t, s, 60, reports); !got.Known || got.Proof != model.ProofGuest || math.Abs(got.RxPPS-2000) > 1 ||
				got.Waiting != 1500 {
				t.Errorf("reports every %d s: %+v, want 2000 packets/s, as the guest says", every, got)
			}
			g.lie = 1e7
			if got := seconds(t, s, 120, reports); got.RxPPS != 0 || !strings.HasPrefix(got.Note, "not believed") {
				t.Errorf("of a liar: %+v", got)
			}
			g.lie = 0
			if got := seconds(t, s, 180, silent); got.Known && got.RxPPS != 0 || got.Waiting != 0 ||
				!strings.HasSuffix(got.Note, "and no guest agent answers") {
				t.Errorf("after it fell silent: %+v", got)
			}
			heard := time.Now()
			if got := seconds(t, s, 60, reports); got.Source != model.SourceAgent || got.At.Before(heard) {
				t.Errorf("when it reports again: %+v", got)
			}
		})
	}
}
