package cli

import (
	"fmt"

	"sluice/api/v1"
	"sluice/internal/model"
)

// shared is a line of `sluice bw`: a NIC, or a whole virtual PF.
type shared struct {
	*api.NICShare
	whole bool
}

// grouped lists the NICs in order, with each virtual PF before the first of its functions.
func grouped(nics, virtual []api.NICShare) []shared {
	var out []shared
	done := map[[2]string]bool{}
	for i := range nics {
		n := &nics[i]
		if at := [2]string{n.ID, n.VirtualPF}; n.VirtualPF != "" && !done[at] {
			done[at] = true
			for k := range virtual {
				if v := &virtual[k]; v.ID == n.ID && v.VirtualPF == n.VirtualPF {
					out = append(out, shared{v, true})
				}
			}
		}
		out = append(out, shared{n, false})
	}
	return out
}

// name returns the name in a table.
func (s shared) name() string {
	_, vf, ok := model.ParseVPFAlias(s.NIC)
	switch {
	case s.VirtualPF == "" || !ok:
		return s.NIC
	case s.whole:
		return s.VirtualPF
	case vf < 0:
		return s.VirtualPF + "/pf"
	}
	return fmt.Sprintf("%s/vf%d", s.VirtualPF, vf)
}

// title returns the name in a sentence.
func (s shared) title() string {
	if s.whole {
		return fmt.Sprintf("virtual PF %s, all functions", s.VirtualPF)
	}
	return s.NIC
}
