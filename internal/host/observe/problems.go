package observe

import (
	"cmp"
	"fmt"
	"slices"

	"sluice/internal/control/doctor"
	"sluice/internal/model"
)

// problems lists what could not be read and what is misconfigured.
func (s *Source) problems(snap *model.Snapshot, pool Pool, trouble []model.Problem) []model.Problem {
	out := slices.Concat(s.inv.problems, trouble)
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
