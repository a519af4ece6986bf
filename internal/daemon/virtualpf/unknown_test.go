package virtualpf

import (
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/control/vpf/vpftest"
	"sluice/internal/model"
)

// TestUnknownFunctionLosesItsCarrierSoon starts a VM with functions that no definition knows, as after a migration, on a host without
// virtual PFs: nothing signals that, and until their links are down no policy holds their frames.
func TestUnknownFunctionLosesItsCarrierSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		time.Sleep(time.Minute + 10*time.Millisecond)
		p := vpftest.PF("a", "vpf0", 2)
		r.host.start("a", []model.VirtualPF{p})
		aliases := []string{p.PFAlias(), model.VPFAlias("vpf0", 0), model.VPFAlias("vpf0", 1)}
		for _, alias := range aliases {
			_ = r.host.SetLink(t.Context(), "a", alias, true)
		}
		time.Sleep(tickEvery)
		synctest.Wait()
		for _, alias := range aliases {
			if got := r.carrier("a", alias); got != model.No {
				t.Errorf("the carrier of %s is %v after %v, want no", alias, got, tickEvery)
			}
		}
	})
}
