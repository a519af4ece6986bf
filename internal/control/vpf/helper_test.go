package vpf

import (
	"errors"
	"testing"

	"sluice/internal/channel"
	"sluice/internal/model"
)

// testMAC returns the MAC of a function.
func testMAC(vm model.VMID, name string, vf int) model.MAC {
	return model.MAC{0x52, 0x54, 0, vm[len(vm)-1], name[len(name)-1], byte(vf + 1)}
}

// testPF returns a virtual PF with VFs.
func testPF(vm model.VMID, name string, vfs int) model.VirtualPF {
	p := model.VirtualPF{
		VM: vm, VMName: "vm-" + string(vm), Name: name, Model: model.VPFVirtio, Backend: model.BackendTap, Network: "br0",
		MAC: testMAC(vm, name, -1), Channel: true,
	}
	for i := range vfs {
		p.VFs = append(p.VFs, model.VirtualVF{MAC: testMAC(vm, name, i)})
	}
	return p
}

func testState(t testing.TB, list ...model.VirtualPF) *State {
	t.Helper()
	s := (&State{}).Clone()
	for _, p := range list {
		s.Put(p)
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	return s
}

func code(err error) string {
	var e *channel.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
