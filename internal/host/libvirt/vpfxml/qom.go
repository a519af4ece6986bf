package vpfxml

import (
	"cmp"
	"encoding/json"
	"fmt"

	"sluice/internal/model"
)

// qemuTypes are the QEMU device types of the models.
var qemuTypes = map[model.VPFModel]string{model.VPFVirtio: "virtio-net-pci", model.VPFIGB: "igb"}

// Composed returns how QEMU's devices differ from the virtual PF. QEMU silently ignores a VF whose property names no device, or the wrong
// one: the guest then has neither VF nor PF. ask sends a QMP command and returns the answer.
func Composed(p *model.VirtualPF, ask func(command string) (string, error)) ([]string, error) {
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
	ask func(string) (string, error)
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
	command, err := json.Marshal(map[string]any{
		"execute":   "qom-get",
		"arguments": map[string]string{"path": "/machine/peripheral/" + alias, "property": property},
	})
	if err != nil {
		q.err = err
		return "", false
	}
	text, err := q.ask(string(command))
	if err != nil {
		q.err = err
		return "", false
	}
	var answer struct {
		Return *string `json:"return"`
		Error  *struct {
			Desc string `json:"desc"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Return == nil && answer.Error == nil {
		q.err = fmt.Errorf("QEMU's answer about %s of %s cannot be read: %s", property, alias, model.Shorten(text))
		return "", false
	}
	if answer.Return == nil {
		return "", false
	}
	return *answer.Return, true
}
