// Package vpftest makes virtual PFs for tests.
package vpftest

import (
	"testing"

	"sluice/internal/model"
)

// MAC returns the MAC of a function.
func MAC(vm model.VMID, name string, vf int) model.MAC {
	return model.MAC{0x52, 0x54, 0, vm[len(vm)-1], name[len(name)-1], byte(vf + 1)}
}

// PF returns a virtual PF with VFs.
func PF(vm model.VMID, name string, vfs int) model.VirtualPF {
	p := model.VirtualPF{
		VM: vm, VMName: "vm-" + string(vm), Name: name, Model: model.VPFVirtio, Backend: model.BackendTap, Network: "br0",
		MAC: MAC(vm, name, -1), Channel: true,
	}
	for i := range vfs {
		p.VFs = append(p.VFs, model.VirtualVF{MAC: MAC(vm, name, i)})
	}
	return p
}

// Fill puts virtual PFs into a vpf.State and returns it. It does not name that type, because the tests of package vpf use it too.
func Fill[S interface {
	Put(model.VirtualPF)
	Check() error
}](t testing.TB, s S, list ...model.VirtualPF,
) S {
	t.Helper()
	for _, p := range list {
		s.Put(p)
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	return s
}
