package actuate

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sluice/internal/host/libvirt"
	"sluice/internal/model"
)

// guestsWith have so many interfaces with the NIC's MAC.
type guestsWith struct {
	n     int
	err   error
	asked int
}

func (g *guestsWith) WithMAC(context.Context, model.VMID, model.MAC) (int, error) {
	g.asked++
	return g.n, g.err
}

// A VM that should have a bond gets no VF if its guest says that it has none. Where that is unknown, or the VM has the VF already, nothing is
// refused.
func TestCheckBond(t *testing.T) {
	for name, c := range map[string]struct {
		failover model.Failover
		guests   guestsWith
		holds    bool
		refused  bool
		asked    int
	}{
		"no bond":            {model.FailoverBond, guestsWith{n: 1}, false, true, 1},
		"a bond":             {model.FailoverBond, guestsWith{n: 2}, false, false, 1},
		"another MAC inside": {model.FailoverBond, guestsWith{n: 0}, false, false, 1},
		"no agent":           {model.FailoverBond, guestsWith{err: errors.New("no agent")}, false, false, 1},
		"teaming":            {model.FailoverTeaming, guestsWith{n: 1}, false, false, 0},
		"it holds the VF":    {model.FailoverBond, guestsWith{n: 1}, true, false, 0},
	} {
		f := newFakeHost(1)
		s := step(model.StepCheckVirtio, 1, 0)
		s.Device.Failover = c.failover
		if c.holds {
			f.vms[0].Hostdevs = []libvirt.Hostdev{{Alias: model.PassthroughAlias(mac(1)), Address: s.Device.Address}}
		}
		a := New(f, f.uplinks(), f, nil)
		a.Guests = &c.guests
		err := a.Do(t.Context(), s)
		if (err != nil) != c.refused || c.refused && (!errors.Is(err, model.ErrPermanent) || !strings.Contains(err.Error(), "failover: bond")) {
			t.Errorf("%s: %v", name, err)
		}
		if c.guests.asked != c.asked {
			t.Errorf("%s: asked %d times", name, c.guests.asked)
		}
	}
}
