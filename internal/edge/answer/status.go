package answer

import (
	"strings"
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
)

// maxRecent bounds the finished moves that an api.Status carries.
const maxRecent = 5

// Summary condenses a View to an overview. problems is the number that Diagnose finds.
func Summary(v *model.View, version string, problems int) api.Status {
	x := NewIndex(v)
	s := api.Status{
		Revision: x.Revision, Version: version, Mode: string(x.Mode), Policy: x.Rules.Policy, Interval: x.Rules.Interval.Seconds(),
		Rounds: x.Rounds,
		Drain:  x.Rules.Drain, Config: x.Config, Started: x.Started, Observed: x.Snapshot.Time, Error: strings.Join(x.Errors, "\n"),
		PFs: []api.PFStatus{}, Recent: []api.MoveReport{}, Problems: problems, Findings: len(x.Findings),
	}
	for i := range x.Snapshot.PFs {
		pf := PFStatus(&x.Snapshot.PFs[i])
		s.PFs = append(s.PFs, pf)
		add(&s.VFs, pf.VFs)
	}
	for i := range x.Overrides {
		if o := overrideOf(&x.Overrides[i]); o.Kind == api.VerbDrain {
			s.Drained = &o
		} else {
			s.Overrides++
		}
	}
	s.VMs, s.Load = x.vmCounts()
	s.Moves = moveCounts(x.View)
	s.Bandwidth = shareCounts(BandwidthOf(v))
	for i := range x.Recent[:min(maxRecent, len(x.Recent))] {
		s.Recent = append(s.Recent, report(&x.Recent[i]))
	}
	return s
}

// PFStatus converts a PF to its API type.
func PFStatus(pf *model.PF) api.PFStatus {
	s := api.PFStatus{
		Name: pf.Name, Address: string(pf.Address), Driver: pf.Driver, Network: pf.Network, Uplink: pf.Uplink.Kind,
		LinkUp: pf.LinkUp, Managed: pf.Managed, VFs: api.VFCounts{Total: len(pf.VFs)},
	}
	for i := range pf.VFs {
		switch pf.VFs[i].Owner {
		case model.OwnerSluice:
			s.VFs.Held++
		case model.OwnerFree:
			s.VFs.Free++
		default:
			s.VFs.Foreign++
		}
	}
	return s
}

func add(c *api.VFCounts, d api.VFCounts) {
	c.Total += d.Total
	c.Held += d.Held
	c.Free += d.Free
	c.Foreign += d.Foreign
}

func (x *Index) vmCounts() (api.VMCounts, api.LoadSum) {
	c := api.VMCounts{Total: len(x.Snapshot.VMs)}
	var sum api.LoadSum
	foreign := map[model.VMID]bool{} // have a VF that Sluice did not assign
	for i := range x.Snapshot.PFs {
		for k := range x.Snapshot.PFs[i].VFs {
			if vf := &x.Snapshot.PFs[i].VFs[k]; vf.Owner == model.OwnerForeign && vf.Holder != "" {
				foreign[vf.Holder] = true
			}
		}
	}
	onVF := 0.0
	for i := range x.Snapshot.VMs {
		row := x.VM(&x.Snapshot.VMs[i])
		count(&c, &row)
		if foreign[x.Snapshot.VMs[i].ID] {
			c.Foreign++
		}
		if row.Known {
			sum.PPS += row.PPS
			sum.Bytes += row.Bytes
		}
		if row.Known && row.VF != "" {
			onVF += row.PPS
		}
	}
	if sum.PPS > 0 {
		sum.VFShare = onVF / sum.PPS
	}
	return c, sum
}

func count(c *api.VMCounts, row *api.VM) {
	for _, one := range []struct {
		yes bool
		n   *int
	}{
		{row.State == api.StateRunning, &c.Running},
		{row.VF != "", &c.Holding},
		{row.Hold, &c.Wanting},
		{row.Code == string(model.CodeVeto), &c.Vetoed},
		{!row.Known && row.State == api.StateRunning, &c.Unknown},
	} {
		if one.yes {
			*one.n++
		}
	}
}

func moveCounts(v *model.View) api.MoveCounts {
	t := &v.Totals
	return api.MoveCounts{
		Active: len(v.Active), Pending: len(v.Pending),
		Plugs: t.Plugs, Unplugs: t.Unplugs, Failed: t.Failed, Retries: t.Retries, Repairs: t.Repairs,
		PlugMean: mean(t.PlugTime, t.Plugs), UnplugMean: mean(t.UnplugTime, t.Unplugs), LateSamples: t.LateSamples,
	}
}

func mean(sum time.Duration, n uint64) float64 {
	if n == 0 {
		return 0
	}
	return sum.Seconds() / float64(n)
}
