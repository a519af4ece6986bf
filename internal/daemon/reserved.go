package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"sluice/internal/config"
	"sluice/internal/host/qualify/measure"
	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

// reservedVFs tells which VFs `sluice qualify` has taken out of the pool.
type reservedVFs struct {
	path string // of its journal; "": unknown
	log  *slog.Logger
	said string // the last error that was logged
}

func newReserved(log *slog.Logger) reservedVFs {
	ns, err := sysif.NetworkNamespace()
	if err != nil {
		return reservedVFs{log: log}
	}
	return reservedVFs{path: measure.JournalPath(runDir, ns), log: log}
}

// look reads the journal again for each Snapshot, which costs microseconds if the file does not exist. If the journal cannot be
// read, any free VF may be in it.
func (r *reservedVFs) look() func(*model.VF) string {
	j, err := measure.ReadJournal(r.path)
	if err != nil {
		if r.said != err.Error() {
			r.said = err.Error()
			r.log.Error("no VM is given a free VF: `sluice qualify` may have set it aside", "error", err)
		}
		return func(vf *model.VF) string {
			if vf.Owner != model.OwnerFree {
				return ""
			}
			return model.PerhapsAside
		}
	}
	r.said = ""
	if j == nil {
		return nil
	}
	ids := map[model.VFID]bool{}
	for i := range j.VFs {
		ids[j.VFs[i].ID] = true
	}
	return func(vf *model.VF) string {
		if !ids[vf.ID] {
			return ""
		}
		return model.SetAside
	}
}

// problems returns what to do about a journal that cannot be read.
func (r *reservedVFs) problems() []model.Problem {
	_, err := measure.ReadJournal(r.path)
	if err == nil {
		return nil
	}
	return []model.Problem{{
		Text: err.Error() + ": no VM is given a free VF, since each may be one of them",
		Remedy: "with the version of Sluice that wrote it: sluice qualify --restore; or, once no free VF has a driver, MAC or rate left from " +
			"a trial (ip -d link show; docs/qualify.md), remove it: rm " + r.path,
	}}
}

// findLeftQualify is the code of a finding about VFs that are still set aside though no qualification is running.
const findLeftQualify = "left-qualify"

func (r *reservedVFs) findings() []model.Finding {
	j, err := measure.ReadJournal(r.path)
	if j == nil || err != nil || measure.Running(r.path) {
		return nil
	}
	text := fmt.Sprintf("`sluice qualify` was killed and left %d VFs set aside, which no VM can get", len(j.VFs))
	return []model.Finding{{Code: findLeftQualify, Subject: "PF " + j.PF, Text: text, Remedy: "sluice qualify --restore"}}
}

// restoreReserved restores the VFs that a killed measurement left, when a daemon in enforce mode starts.
func (d *daemonState) restoreReserved(ctx context.Context, c *config.Config) {
	if d.options(c).Mode != model.ModeEnforce || len(d.host.reserved.findings()) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	failed, err := measure.Restore(ctx, d.host.kernel, d.host.holders, d.host.reserved.path)
	if err != nil || len(failed) > 0 {
		d.log.Error("VFs that `sluice qualify` left remain set aside", "error", err, "not_restored", failed)
		return
	}
	d.log.Info("VFs that `sluice qualify` left are restored")
}
