package daemon

import (
	"context"
	"testing"

	"sluice/internal/kernel"
	"sluice/internal/libvirt"
	"sluice/internal/model"
)

// vpfHost has one VM with a function, and counts how often its switch ports are read.
type vpfHost struct {
	domains []libvirt.Domain
	links   []kernel.Link
	reads   int
}

func (h *vpfHost) Domains(context.Context) ([]libvirt.Domain, error) { return h.domains, nil }

func (h *vpfHost) Links(context.Context) ([]kernel.Link, error) { return h.links, nil }

func (h *vpfHost) VDPADevices(context.Context) ([]model.VDPADevice, error) { return nil, nil }

func (h *vpfHost) SwitchPorts(context.Context) ([]model.SwitchPortState, error) {
	h.reads++
	return nil, nil
}

// Switch ports are read when that is asked for or a function has changed, and a VM's run is told by the first of its functions' taps.
func TestLooker(t *testing.T) {
	nic := model.NIC{Alias: "ua-vpf-vpf0-pf", Tap: "vnet1", VirtualPF: "vpf0"}
	h := &vpfHost{
		domains: []libvirt.Domain{{VM: model.VM{ID: "a", State: model.VMRunning, NICs: []model.NIC{{Alias: "net0", Tap: "vnet0"}, nic}}}, {VM: model.VM{ID: "b", State: model.VMStopped}}},
		links:   []kernel.Link{{Name: "vnet0", Index: 3}, {Name: "vnet1", Index: 7}, {Name: "vnet2", Index: 9}},
	}
	l := &looker{domains: h, kernel: h, boot: "boot"}
	look := func(fresh bool, run string, reads int) {
		t.Helper()
		w, err := l.World(t.Context(), fresh)
		if err != nil || len(w.VMs) != 1 || w.VMs[0].Run != run || h.reads != reads {
			t.Errorf("%+v, %v, %d reads; want run %q, %d reads", w, err, h.reads, run, reads)
		}
	}
	look(true, "boot/7", 1)
	look(false, "boot/7", 1)
	look(true, "boot/7", 2)
	h.domains[0].NICs[1].Carrier = model.Yes
	look(false, "boot/7", 3)
	h.domains[0].NICs[1].Tap = "vnet2"
	look(false, "boot/9", 4)
	h.domains[0].NICs[1].Tap = "gone"
	look(false, "", 5)
}
