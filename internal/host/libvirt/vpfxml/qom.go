package vpfxml

import (
	"cmp"
	"fmt"

	"sluice/internal/host/libvirt/qmp"
	"sluice/internal/model"
)

// qemuTypes are the QEMU device types of the models.
var qemuTypes = map[model.VPFModel]string{model.VPFVirtio: "virtio-net-pci", model.VPFIGB: "igb"}

// Composed returns how QEMU's devices differ from the virtual PF. QEMU silently ignores a VF whose property names no device, or the wrong
// one: the guest then has neither VF nor PF.
func Composed(p *model.VirtualPF, ask qmp.Ask) ([]string, error) {
	q := qom{p: p, ask: ask}
	for _, f := range layout(p, 0, 0) {
		if q.err != nil || q.old {
			break
		}
		q.function(f)
	}
	return q.out, q.err
}

type qom struct {
	p   *model.VirtualPF
	ask qmp.Ask
	out []string
	err error // of ask: nothing more is asked after it
	old bool  // this QEMU does not support virtual PFs
}

func (q *qom) add(format string, args ...any) { q.out = append(q.out, fmt.Sprintf(format, args...)) }

func (q *qom) function(f function) {
	kind, there := q.get(f.alias, "type")
	switch want := qemuTypes[q.p.Model]; {
	case q.err != nil:
		return
	case !there:
		q.add("QEMU has no device %s", f.alias)
		return
	case kind != want:
		q.add("%s is a %s in QEMU: want %s", f.alias, kind, want)
		return
	case q.p.Model != model.VPFVirtio:
		return
	}
	of, known := q.get(f.alias, "sriov-pf")
	want := ""
	if f.vf >= 0 {
		want = q.p.PFAlias()
	}
	switch {
	case q.err != nil:
	case !known:
		q.old = true
		q.add("this QEMU cannot compose virtual PFs: it has no property sriov-pf (10.1 is the first that has)")
	case of != want:
		q.add("%s belongs to the PF %s in QEMU: want %s", f.alias, cmp.Or(of, "none"), cmp.Or(want, "none"))
	}
}

// get reads a property of a device, and reports whether the device and the property exist.
func (q *qom) get(alias, property string) (value string, ok bool) {
	value, ok, q.err = q.ask.Get(alias, property)
	return value, ok
}
