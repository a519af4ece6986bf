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
		Rounds: x.Rounds, Drain: x.Rules.Drain, Config: x.Config, Started: x.Started, Observed: x.Snapshot.Time,
		Error: strings.Join(x.Errors, "\n"), PFs: convert(x.Snapshot.PFs, PFStatus), Moves: moveCounts(x.View),
		Bandwidth: shareCounts(BandwidthOf(v)), Recent: convert(x.Recent[:min(maxRecent, len(x.Recent))], report),
		Problems: problems, Findings: len(x.Findings),
	}
	for i := range s.PFs {
		c := &s.PFs[i].VFs
		s.VFs.Total += c.Total
		s.VFs.Held += c.Held
		s.VFs.Free += c.Free
		s.VFs.Unusable += c.Unusable
		s.VFs.Foreign += c.Foreign
	}
	for i := range x.Overrides {
		if o := overrideOf(&x.Overrides[i]); o.Kind == api.VerbDrain {
			s.Drained = &o
		} else {
			s.Overrides++
		}
	}
	s.VMs, s.Load = x.vmCounts()
	return s
}

// PFStatus converts a PF to its API type.
func PFStatus(pf *model.PF) api.PFStatus {
	s := api.PFStatus{
		Name: pf.Name, Address: string(pf.Address), Driver: pf.Driver, Network: pf.Network, Uplink: pf.Uplink.Kind,
		Representors: pf.Uplink.Representors, Why: pf.Uplink.Why, Remedy: pf.Uplink.Remedy,
		LinkUp: pf.LinkUp, Carries: capacityOf(pf.Capacity()), Managed: pf.Managed, VFs: api.VFCounts{Total: len(pf.VFs)},
	}
	for i := range pf.VFs {
		switch pf.VFs[i].Owner {
		case model.OwnerSluice:
			s.VFs.Held++
		case model.OwnerFree:
			s.VFs.Free++
			s.VFs.Unusable += one(!pf.Managed || !pf.LinkUp || pf.Uplink.Why != "")
		default:
			s.VFs.Foreign++
		}
	}
	return s
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
		running := row.State == api.StateRunning
		c.Running += one(running)
		c.Holding += one(row.VF != "")
		c.Foreign += one(foreign[x.Snapshot.VMs[i].ID])
		c.Wanting += one(row.Hold)
		c.Vetoed += one(row.Code == string(model.CodeVeto))
		c.Unknown += one(running && !row.Known)
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

func moveCounts(v *model.View) api.MoveCounts {
	t := &v.Totals
	return api.MoveCounts{
		Active: len(v.Active), Pending: len(v.Pending),
		Plugs: t.Plugs, Unplugs: t.Unplugs, Failed: t.Failed, FailedHour: t.FailedHour, Retries: t.Retries, Repairs: t.Repairs,
		PlugMean: mean(t.PlugTime, t.Plugs), UnplugMean: mean(t.UnplugTime, t.Unplugs), LateSamples: t.LateSamples,
	}
}

func mean(sum time.Duration, n uint64) float64 {
	if n == 0 {
		return 0
	}
	return sum.Seconds() / float64(n)
}
