package ovs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice/internal/model"
)

// Keys of an interface's external ids. The logical port of a VM is where iface-id is. Sluice's own keys tell where it has moved it from.
const (
	ifaceID     = "iface-id"
	keptAs      = "sluice-iface-id"  // at a tap: the iface-id that a representor has meanwhile
	ofTap       = "sluice-tap"       // at a representor: the tap that its iface-id is from
	ofMAC       = "sluice-mac"       // at a representor: the guest's MAC
	installed   = "ovn-installed"    // ovn-controller has put the port's flows into the switch
	installedAt = "ovn-installed-ts" // when
)

// copied are the keys that describe the VM; they stay at the tap too.
var copied = []string{"attached-mac", "iface-status", "iface-id-ver", "vm-id", "vm-uuid"}

type ids map[string]string

// without returns a copy without some keys.
func (i ids) without(keys ...string) ids {
	out := maps.Clone(i)
	if out == nil {
		out = ids{}
	}
	for _, k := range keys {
		delete(out, k)
	}
	return out
}

// toRepresentor returns the ids after the logical port of a tap has moved to a representor. An iface-id at the tap is what the VM's manager
// wants, even if the representor has another from there.
func toRepresentor(tap, rep ids, name string, mac model.MAC) (newTap, newRep ids, err error) {
	mine := rep[ofTap] == name
	id := tap[ifaceID]
	switch {
	case rep[ifaceID] != "" && !mine:
		return nil, nil, fmt.Errorf("%w: it is the logical port %s, which Sluice did not put there: "+
			"ovs-vsctl remove interface REPRESENTOR external_ids iface-id", model.ErrPermanent, model.Shorten(rep[ifaceID]))
	case id != "":
	case mine && rep[ifaceID] == "":
		return nil, nil, fmt.Errorf("%w: somebody took iface-id from it: set it at tap %s again (ovs-vsctl set interface)", model.ErrPermanent,
			name)
	default:
		id = cmp.Or(rep[ifaceID], tap[keptAs]) // the second: somebody made the representor's port again
	}
	if id == "" {
		return nil, nil, fmt.Errorf("%w: tap %s has no iface-id, so OVN does not know it: "+
			"ovs-vsctl set interface %[2]s external_ids:iface-id=PORT", model.ErrPermanent, name)
	}
	newTap = tap.without(ifaceID, installed, installedAt)
	newTap[keptAs] = id
	newRep = rep.without()
	if rep[ifaceID] != id || tap[ifaceID] != "" {
		newRep = rep.without(installed, installedAt)
	}
	for _, k := range copied {
		if v, ok := tap[k]; ok {
			newRep[k] = v
		}
	}
	newRep[ifaceID], newRep[ofTap], newRep[ofMAC] = id, name, mac.String()
	return newTap, newRep, nil
}

// toTap returns a tap's ids after its logical port has come back from a representor, nil if there is none. What somebody changed at
// either meanwhile stays so: an iface-id at the tap, or another one, or none, at the representor.
func toTap(tap, rep ids) (newTap ids) {
	id := cmp.Or(tap[ifaceID], rep[ifaceID])
	if id == "" && rep == nil {
		id = tap[keptAs]
	}
	newTap = tap.without(keptAs)
	if id == "" {
		return newTap
	}
	if tap[ifaceID] == "" {
		newTap = newTap.without(installed, installedAt)
	}
	newTap[ifaceID] = id
	return newTap
}

// released returns a representor's ids without all that Sluice puts there.
func released(rep ids) ids {
	return rep.without(append(slices.Clone(copied), ifaceID, ofTap, ofMAC, installed, installedAt)...)
}

// ovn reads how OVN uses this host from the ids of the database's root.
func (t *topology) ovn(root ids) {
	if root["ovn-remote"] == "" {
		return
	}
	name := cmp.Or(root["ovn-bridge"], "br-int")
	if t.bridges[name] != nil {
		t.integration = name
	}
	for pair := range strings.SplitSeq(root["ovn-bridge-mappings"], ",") {
		if _, bridge, ok := strings.Cut(pair, ":"); ok {
			t.mapped[bridge] = true
		}
	}
}

// movedFrom returns the representors that have the logical port of a tap.
func (t *topology) movedFrom(tap string) (reps []*interfaceRow) {
	for _, i := range t.interfaces {
		if i.IDs[ofTap] == tap {
			reps = append(reps, i)
		}
	}
	slices.SortFunc(reps, func(a, b *interfaceRow) int { return cmp.Compare(a.Name, b.Name) })
	return reps
}
