package vpf

import (
	"fmt"

	"sluice/internal/model"
)

// Kind is the type of an Action.
type Kind string

// The kinds of Action.
const (
	Forget   Kind = "forget"      // revoke the grants of a guest whose VM ended or restarted
	LinkDown Kind = "link-down"   // take away a function's carrier
	SetPort  Kind = "set-port"    // configure a tap as the wanted port
	LinkUp   Kind = "link-up"     // give a function a carrier
	DropPort Kind = "remove-port" // clean up after a tap that is gone

	MakeDevice Kind = "make-device"   // create a vDPA device
	DropDevice Kind = "remove-device" // remove a vDPA device
)

// Action is one thing to do. Actions are idempotent, and those of one VM are carried out in sequence.
type Action struct {
	Kind   Kind
	VM     model.VMID       // "" for DropPort
	Alias  string           // of the function, for LinkDown, SetPort and LinkUp
	Tap    string           // for DropPort
	Port   model.SwitchPort // for SetPort, and for LinkUp: the port that must be in force
	Run    string           // run of the VM: for LinkUp the one that gets the carrier, for Forget the one whose grants end
	Device model.VDPAWant   // for MakeDevice; for DropDevice only its name
	Why    string

	attempt uint64 // number in the Core's records
}

// Allows reports whether, by this World, a function may still get its carrier. Between a Tick and its actions the VM may have
// restarted, or somebody may have removed the policy.
func (a *Action) Allows(w *World) error {
	vm := w.FindVM(a.VM)
	if vm == nil || vm.Run != a.Run {
		return fmt.Errorf("the VM has ended: %w", model.ErrGone)
	}
	n := vm.FindNIC(a.Alias)
	if n == nil || n.Tap != a.Port.Tap {
		return fmt.Errorf("the NIC has been replaced: %w", model.ErrGone)
	}
	for i := range w.Ports {
		if Holds(&a.Port, &w.Ports[i]) {
			return nil
		}
	}
	return fmt.Errorf("the policy is no longer in force: %w", model.ErrGone)
}

func (a *Action) String() string {
	switch a.Kind {
	case Forget:
		return fmt.Sprintf("revoke the grants of the guest of VM %s: %s", a.VM, a.Why)
	case LinkDown:
		return fmt.Sprintf("take away the carrier of %s of VM %s: %s", a.Alias, a.VM, a.Why)
	case SetPort:
		return fmt.Sprintf("set the policy of %s of VM %s on tap %s", a.Alias, a.VM, a.Port.Tap)
	case LinkUp:
		return fmt.Sprintf("give %s of VM %s a carrier", a.Alias, a.VM)
	case MakeDevice:
		return fmt.Sprintf("create vDPA device %s with MAC %s", a.Device.Name, a.Device.MAC)
	case DropDevice:
		return fmt.Sprintf("remove vDPA device %s: %s", a.Device.Name, a.Why)
	}
	return fmt.Sprintf("clean up the port of tap %s: %s", a.Tap, a.Why)
}

// Useless reports whether a port that is about to be removed is in use again.
func (a *Action) Useless(w *World) bool {
	for i := range w.VMs {
		for k := range w.VMs[i].NICs {
			if n := &w.VMs[i].NICs[k]; n.Tap == a.Tap && n.VirtualPF != "" {
				return true
			}
		}
	}
	return false
}

// key identifies the object of an action, so that failures can be recorded.
type key struct {
	kind  Kind
	vm    model.VMID
	about string // alias, tap, or device name
}

func (a *Action) key() key {
	switch a.Kind {
	case DropPort:
		return key{a.Kind, a.VM, a.Tap}
	case DropDevice:
		return key{a.Kind, a.VM, a.Device.Name}
	}
	return key{a.Kind, a.VM, a.Alias}
}
