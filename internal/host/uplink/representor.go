package uplink

import (
	"regexp"
	"strconv"

	"sluice/internal/host/netdev"
	"sluice/internal/model"
)

// ofVF is the port name that the kernel gives the representor of a VF: pf0vf3. One of a VF behind another controller, as a DPU has them,
// begins with c1 and is not on this host's PF.
var ofVF = regexp.MustCompile(`^pf(\d+)vf(\d+)$`)

// ofPF is the port name of a PF: p0.
var ofPF = regexp.MustCompile(`^p(\d+)$`)

// Elsewhere takes the port from a VF whose representor somebody made a port of another switch, so that the VF is not used.
func Elsewhere(vf *model.VF, where, remedy string) {
	vf.NoPort = "its representor " + vf.Port + " is a port of " + where + " (" + remedy + ")"
	vf.Port, vf.PortIndex = "", 0
}

// Represent sets the ports of a PF's VFs: their representors, which the kernel's port names tell whatever the interfaces are called. Two
// PFs of one embedded switch are told apart by their numbers. It returns how many VFs have one in this network namespace.
func Represent(links *Links, pf *model.PF, link *netdev.Link) (found int) {
	if link.Switch == "" {
		return 0
	}
	number := ""
	if m := ofPF.FindStringSubmatch(link.Port); m != nil {
		number = m[1]
	}
	byVF := map[int]*netdev.Link{}
	for _, l := range links.ByIndex {
		m := ofVF.FindStringSubmatch(l.Port)
		if m == nil || l.Switch != link.Switch || number != "" && m[1] != number {
			continue
		}
		vf, _ := strconv.Atoi(m[2])
		if _, twice := byVF[vf]; twice { // of another PF of the switch: they cannot be told apart
			l = nil
		}
		byVF[vf] = l
	}
	for i := range pf.VFs {
		if l := byVF[pf.VFs[i].ID.Index]; l != nil {
			pf.VFs[i].Port, pf.VFs[i].PortIndex, pf.VFs[i].PortDown = l.Name, l.Index, !l.Up
			found++
		}
	}
	return found
}
