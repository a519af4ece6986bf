package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/model"
)

// Uplink is a kind of switch and NIC. All switches are one: it sends the frames for an address to the port of its entry, else to the tap,
// and a dual path copies what leaves by the tap. The kinds differ in what is listed at their traits.
type Uplink string

// Kinds of Uplink.
const (
	Bridge       Uplink = "bridge"       // a Linux bridge with a legacy NIC
	Representors Uplink = "representors" // a Linux bridge with a NIC in switchdev mode
	OpenVSwitch  Uplink = "ovs"          // Open vSwitch with a legacy NIC
	OVN          Uplink = "ovn"          // OVN with a NIC in switchdev mode
)

// Uplinks are the kinds of Uplink.
var Uplinks = []Uplink{Bridge, Representors, OpenVSwitch, OVN}

// traits are what tells kinds of Uplink apart.
type traits struct {
	kind         string // as in model.Uplink
	representors bool   // each VF has a port of its own in the switch; the PF then passes every frame and needs no filters
	program      bool   // the entry is a program at the tap, and ends with it
	logical      bool   // the entry is where the guest's logical port is: what the guest sends counts there only
}

var kinds = map[Uplink]traits{
	"":           {},
	Bridge:       {kind: "linux-bridge"},
	Representors: {kind: "linux-bridge", representors: true},
	OpenVSwitch:  {kind: "openvswitch", program: true},
	OVN:          {kind: "ovn", representors: true, logical: true},
}

// Connect makes the PF's Uplink one of that kind. PFs of one network have one kind. Behind a Linux bridge, `sluice qualify` has found
// that limits in packets/s hold at representors.
func (w *World) Connect(p *PF, u Uplink) {
	p.kind = kinds[u]
	p.Caps.VFPackets = model.TriOf(u == Representors)
	if p.kind.kind != "" {
		p.Uplink = model.Uplink{Kind: p.kind.kind, Switch: p.Network, Port: p.Name, Representors: p.kind.representors, OnePort: p.kind.logical}
	}
	p.represent()
}

// represent gives each VF its own port of the switch, if the NIC does.
func (p *PF) represent() {
	p.joined = map[string]string{}
	for i := range p.VFs {
		if p.kind.representors {
			p.VFs[i].Port = fmt.Sprintf("%s_%d", p.Name, i)
		}
	}
}

// kindOf returns how the switch of a network steers frames.
func (w *World) kindOf(network string) traits {
	for _, p := range w.pfs {
		if p.Network == network {
			return p.kind
		}
	}
	return traits{}
}

// behind returns the PF to which a port of the switch leads, and the VF, if the port is its representor; nil: another port.
func (w *World) behind(port string) (*PF, *model.VF) {
	for _, p := range w.pfs {
		if p.Name == port {
			return p, nil
		}
		if p.kind.representors && port != "" {
			for i := range p.VFs {
				if p.VFs[i].Port == port {
					return p, &p.VFs[i]
				}
			}
		}
	}
	return nil, nil
}

var errSwitch = errors.New("the switch's database does not answer")

// answers returns an error if a network's switch cannot be changed.
func (w *World) answers(network string) error {
	if slices.ContainsFunc(w.pfs, func(p *PF) bool { return p.Network == network && p.stopped }) {
		return errSwitch
	}
	return nil
}

// send sets the port of an address; "": none. A switch whose entries are programs or logical ports has none for a tap.
func (w *World) send(at address, tap, port string) error {
	switch k := w.kindOf(at.network); {
	case w.answers(at.network) != nil:
		return errSwitch
	case port == "", port == tap && (k.program || k.logical):
		delete(w.fdb, at)
	default:
		w.fdb[at] = port
	}
	return nil
}

// join makes the representor that a Step names a port of the Step's switch, where it stays, and sets it up. Nobody's switch is robbed
// of it.
func (w *World) join(s model.Step) error {
	p, vf := w.behind(s.Path.Uplink)
	switch {
	case !s.Path.Representor:
		return nil
	case vf == nil:
		return fmt.Errorf("the VF has no representor: %w", model.ErrPermanent)
	case p.joined[vf.Port] != "" && p.joined[vf.Port] != s.Path.Network:
		return fmt.Errorf("representor %s is in %s: %w", vf.Port, p.joined[vf.Port], model.ErrPermanent)
	}
	vf.PortDown = false
	if p.joined[vf.Port] != "" {
		return nil
	}
	if err := w.answers(s.Path.Network); err != nil {
		return err
	}
	p.joined[vf.Port] = s.Path.Network
	return nil
}

// passes reports whether frames pass between the NIC's VF and that representor. What a dual path copies needs no more.
func (p *PF) passes(n *NIC, vf *model.VF) bool {
	return p.LinkUp && !vf.PortDown && vf.ID == n.hasVF && vf.MAC == n.MAC && vf.VLAN == 0
}

// reaches reports whether frames also pass between that representor and the NIC's switch.
func (p *PF) reaches(n *NIC, vf *model.VF) bool { return p.passes(n, vf) && p.joined[vf.Port] == n.Net }

// half is one copy of a dual path.
type half struct {
	mirror
	to string
}

// halves returns the copies of a dual path: what leaves by the tap and, if the switch takes in frames only where the logical port is, what
// the VF sends.
func (w *World) halves(s model.Step) []half {
	out := []half{{dualPath(s), s.Path.Port()}}
	if w.kindOf(s.Path.Network).logical {
		out = append(out, half{mirror{s.Path.Uplink, s.Path.MAC}, s.Path.Tap})
	}
	return out
}

// String prints the switches with their ports, entries and dual paths, the VFs, and who is reached.
func (w *World) String() string {
	var b strings.Builder
	for _, p := range w.pfs {
		fmt.Fprintf(&b, "%s in %s %s up=%v self=%v\n", p.Name, p.Network, p.Uplink.Kind, p.LinkUp, p.self)
		for _, vf := range p.VFs {
			fmt.Fprintf(&b, "  %s mac=%s vlan=%d", vf.ID, vf.MAC, vf.VLAN)
			if vf.Port != "" {
				fmt.Fprintf(&b, " port=%s in %q down=%v", vf.Port, p.joined[vf.Port], vf.PortDown)
			}
			b.WriteByte('\n')
		}
	}
	for n := range w.nics() {
		fmt.Fprintf(&b, "%s %s %s %s ports=%d vf=%s open=%v foreign=%v asked=%v %+v\n", n, n.VM.State, n.Net, n.MAC, n.VM.Ports, n.hasVF, n.open,
			n.foreign, n.asked, w.Reach(n))
	}
	lines := []string{}
	for at, port := range w.fdb {
		lines = append(lines, fmt.Sprintf("%s sends %s to %s\n", at.network, at.mac, port))
	}
	for m, to := range w.mirrors {
		lines = append(lines, fmt.Sprintf("%s copies %s to %s\n", m.tap, m.mac, to))
	}
	slices.Sort(lines)
	b.WriteString(strings.Join(lines, ""))
	return b.String()
}
