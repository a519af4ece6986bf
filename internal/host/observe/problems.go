package observe

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sluice/internal/control/doctor"
	"sluice/internal/host/others"
	"sluice/internal/model"
)

// problems lists what could not be read and what is misconfigured.
func (s *Source) problems(snap *model.Snapshot, pool Pool, trouble []model.Problem) []model.Problem {
	out := slices.Concat(s.inv.problems, trouble, s.findOthers(snap))
	out = append(out, poolProblems(snap, pool)...)
	for i := range snap.PFs {
		pf := &snap.PFs[i]
		if was, ok := s.numVFs[pf.Name]; ok && was != pf.NumVFs && pf.Managed {
			out = append(out, model.Problem{
				Subject: pf.Name,
				Text:    fmt.Sprintf("sriov_numvfs changed from %d to %d since the config was read", was, pf.NumVFs),
				Remedy:  "reload the config if this is intended",
			})
		}
	}
	return append(out, doctor.Troubles(snap)...)
}

// othersEvery is how often programs of the host are looked for.
const othersEvery = 30 * time.Second

// findOthers returns what other programs do to the interfaces of managed PFs' VFs: their own, if the host has them, and representors.
func (s *Source) findOthers(snap *model.Snapshot) []model.Problem {
	if age := snap.Time.Sub(s.othersAt); s.opt.Others == nil || age >= 0 && age < othersEvery {
		return s.others
	}
	var list []others.Interface
	add := func(name string, vf *model.VF, representor bool) {
		i := others.Interface{Name: name, VF: vf.ID, Representor: representor}
		if l := s.join.links.ByName[name]; l != nil {
			i.Index = l.Index
			if m := s.join.links.Master(l); m != nil && m.Kind == "bridge" {
				i.Bridge = m.Name
			}
		}
		list = append(list, i)
	}
	for i := range s.inv.pfs {
		pf := snap.FindPF(s.inv.pfs[i].Name)
		if pf == nil || !pf.Managed {
			continue
		}
		for k := range pf.VFs {
			vf, use := &pf.VFs[k], s.inv.pfs[i].Uses
			switch {
			case vf.OwnerWhy == model.NotInPool:
			case k < len(use) && use[k].HostNetdev != "":
				add(use[k].HostNetdev, vf, false)
			default: // as udev names it once the host's driver has the VF
				add(fmt.Sprintf("%sv%d", pf.Name, vf.ID.Index), vf, false)
			}
			if vf.Port != "" && vf.OwnerWhy != model.NotInPool {
				add(vf.Port, vf, true)
			}
		}
	}
	s.others, s.othersAt = s.opt.Others(list), snap.Time
	return s.others
}

// poolProblems compares the pool with the PFs and VFs that exist.
func poolProblems(snap *model.Snapshot, pool Pool) []model.Problem {
	var out []model.Problem
	for name, want := range pool {
		pf := snap.FindPF(name)
		if pf == nil {
			out = append(out, model.Problem{
				Subject: name, Text: "the config lists it, but there is no such PF",
				Remedy: "correct pfs: in sluice.yaml, or check that the driver is loaded and the interface is in this network namespace",
			})
			continue
		}
		for _, i := range want.VFs {
			if i >= pf.NumVFs && !want.All {
				out = append(out, model.Problem{
					Subject: model.VFID{PF: name, Index: i}.String(),
					Text:    fmt.Sprintf("the config lists it, but %s has %d VFs", name, pf.NumVFs),
					Remedy:  "correct pfs: in sluice.yaml, or set sriov_numvfs",
				})
			}
		}
	}
	slices.SortFunc(out, bySubject)
	return out
}

func bySubject(a, b model.Problem) int { return cmp.Compare(a.Subject, b.Subject) }
