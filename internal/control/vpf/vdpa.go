package vpf

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/model"
)

// VDPADefaults fills in the defaults of VFs on vDPA devices. Their frames bypass the host on the way from the guest to the NIC, so all
// that Sluice can set is the device's MAC. libvirt cannot change their link.
func VDPADefaults(p *model.VirtualPF) {
	for i := range p.VFs {
		port := &p.VFs[i].Port
		port.NoSpoofCheck = true
		if port.Link == model.LinkAuto {
			port.Link = model.LinkUp
		}
	}
}

// CheckBackend rejects settings that the backend cannot enforce.
func CheckBackend(p *model.VirtualPF, port *model.PortPolicy) error {
	if p.Backend != model.BackendVDPA {
		return nil
	}
	var cannot []string
	add := func(is bool, what string) {
		if is {
			cannot = append(cannot, what)
		}
	}
	add(!port.NoSpoofCheck, "the spoof check (switch it off)")
	add(len(port.MACs) > 0, "further MACs")
	add(port.VLAN != 0 || len(port.Trunk) > 0, "VLANs")
	add(port.CheckARP, "the check of ARP and ND")
	add(len(port.Addresses) > 0, "addresses")
	add(port.Isolated, "isolation")
	add(!port.SLA.Guarantee.IsZero() || !port.SLA.Limit.IsZero() || port.SLA.Weight != 0, "rates")
	add(port.Link != model.LinkUp, "another link state than up, which libvirt cannot change")
	if len(cannot) == 0 {
		return nil
	}
	return fmt.Errorf("the frames of a vDPA device bypass the host, so nothing there can enforce %s: omit that, set it in the "+
		"NIC's own switch, or define the virtual PF with backend tap", strings.Join(cannot, ", "))
}

// errVDPAMAC rejects a MAC that the NIC would not let through.
var errVDPAMAC = errors.New("a vDPA device has the one MAC with which it was created: ask for no other")

// CheckGrant is CheckBackend for what a guest is about to be granted.
func CheckGrant(p *model.VirtualPF, g *model.VFGrant) error {
	if p.Backend == model.BackendVDPA && !g.MAC.IsZero() {
		return errVDPAMAC
	}
	return CheckBackend(p, &g.Port)
}

// device returns the vDPA device that a function needs.
func device(p *model.VirtualPF, vf int) model.VDPAWant {
	want := model.VDPAWant{Name: model.VDPAName(p.VM, p.Name, vf), Manager: p.Network, MAC: p.MAC}
	if vf >= 0 {
		want.MAC = p.VFs[vf].MAC
	}
	return want
}

// deviceReady reports whether a VM finds the device that it needs when it starts. Old kernels do not report the MAC.
func deviceReady(want *model.VDPAWant, have *model.VDPADevice) bool {
	return have.Name == want.Name && (have.MAC == want.MAC || have.MAC.IsZero()) && have.Driver == "vhost_vdpa" && have.Linked
}

// vdpa decides about a function that has a vDPA device. The device exists as long as the definition, whether the VM runs or not,
// because libvirt opens it when it starts the VM. A reboot of the host removes it.
func (c *Core) vdpa(p *model.VirtualPF, vm *VM, vf int, f model.FunctionStatus) (model.FunctionStatus, bool) {
	want := device(p, vf)
	f.InForce = slices.ContainsFunc(c.world.VDPA, func(d model.VDPADevice) bool { return deviceReady(&want, &d) })
	if vm != nil {
		if nic := vm.NIC(p.Name, vf); nic != nil {
			f.Carrier = nic.Carrier
		}
	}
	if f.InForce {
		return f, true
	}
	a := Action{Kind: MakeDevice, VM: p.VM, Alias: f.Alias, Device: want}
	f.Why = "its vDPA device is being created"
	if e := c.failed(a.key()); e != nil {
		f.Why = "it has no vDPA device"
		f.Problems = append(f.Problems, model.Problem{
			Subject: p.VMName, Text: fmt.Sprintf("cannot %s: %v", a.String(), e),
			Remedy: "Sluice tries again; without it the VM does not start",
		})
	}
	c.do(a)
	return f, false
}

// Devices returns the names of the vDPA devices that the definitions need.
func (s *State) Devices() map[string]bool {
	out := map[string]bool{}
	for k := range s.Virtual {
		p := &s.Virtual[k]
		for i := -1; i < len(p.VFs) && p.Backend == model.BackendVDPA; i++ {
			out[device(p, i).Name] = true
		}
	}
	return out
}

// unusedDevices removes Sluice's vDPA devices that no definition needs any more. It waits until the VM is off: QEMU may have the device
// open even if nobody in the guest uses it, and removing it would then block in the kernel.
func (c *Core) unusedDevices() {
	wanted := c.state.Devices()
	for i := range c.world.VDPA {
		d := &c.world.VDPA[i]
		vm, ours := model.VDPAOurs(d.Name)
		switch {
		case !ours || wanted[d.Name]:
		case !c.world.Gone(vm) || d.InUse == model.Yes:
			c.out.Problems = append(c.out.Problems, model.Problem{
				Subject: d.Name, Text: "this vDPA device belongs to no defined virtual PF, and may be in use",
				Remedy: "it is removed when its VM is off",
			})
		default:
			a := Action{Kind: DropDevice, VM: vm, Device: model.VDPAWant{Name: d.Name}, Why: "no virtual PF needs it"}
			if e := c.failed(a.key()); e != nil {
				c.out.Problems = append(c.out.Problems, model.Problem{
					Subject: d.Name, Text: fmt.Sprintf("cannot %s: %v", a.String(), e),
					Remedy: "Sluice tries again; by hand: vdpa dev del " + d.Name,
				})
			}
			c.do(a)
		}
	}
}

// deviceGone reports whether a failed action on a device is no longer relevant.
func (c *Core) deviceGone(k key) bool {
	if k.kind == DropDevice {
		return !slices.ContainsFunc(c.world.VDPA, func(d model.VDPADevice) bool { return d.Name == k.about })
	}
	name, _, _ := model.ParseVPFAlias(k.about)
	return c.state.Find(k.vm, name) == nil
}
