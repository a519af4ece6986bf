package answer

import (
	"fmt"
	"strings"
	"time"

	"sluice/internal/model"
)

// Examine looks for problems in a Snapshot; the caller supplies it.
type Examine func(*model.Snapshot) []model.Problem

// Diagnose lists the daemon's own problems, then those that examine finds in the Snapshot (nil: those recorded in the
// Snapshot). An observation of the host older than stale is a problem; 0 means never.
func Diagnose(v *model.View, examine Examine, now time.Time, stale time.Duration) []model.Problem {
	list := []model.Problem{}
	if !Observed(v) {
		list = append(list, model.Problem{
			Text:   "the host has not been observed yet",
			Remedy: "wait a moment; if this persists, read the log: journalctl -u sluice",
		})
	}
	if v != nil {
		for _, text := range v.Errors {
			list = append(list, model.Problem{
				Text:   text,
				Remedy: "fix that; the daemon continues with what it had before, and its log has details: journalctl -u sluice",
			})
		}
	}
	if !Observed(v) {
		return list
	}
	if age := now.Sub(v.Snapshot.Time); stale > 0 && age > stale {
		list = append(list, model.Problem{
			Text:   fmt.Sprintf("the last observation of the host is %s old", age.Round(time.Second)),
			Remedy: "check that libvirt answers (virsh list) and read the log: journalctl -u sluice",
		})
	}
	list = append(append(list, failedMoves(v)...), BandwidthOf(v).Problems...)
	if examine == nil {
		return append(list, v.Snapshot.Problems...)
	}
	return append(list, examine(v.Snapshot)...)
}

// failedMoves lists the VMs that are in backoff after a failed move.
func failedMoves(v *model.View) (list []model.Problem) {
	if v.Target == nil {
		return nil
	}
	for i := range v.Target.Reasons {
		r := &v.Target.Reasons[i]
		if r.Code != model.CodeBackoff {
			continue
		}
		p := model.Problem{Subject: string(r.VM), Text: r.Detail + "; it will be retried " + when(r.Until)}
		if vm := v.Snapshot.FindVM(r.VM); vm != nil {
			p.Subject = vm.Name
		}
		p.Remedy = fmt.Sprintf("fix that, or run `sluice release %s` to stop further attempts; the log has details: journalctl -u sluice",
			p.Subject)
		if strings.Contains(r.Detail, model.ErrGuest.Error()) {
			p.Remedy = fmt.Sprintf("check in the guest that it has the VF's driver and net_failover or a bond (lspci -k; dmesg), "+
				"or run `sluice release %s`", p.Subject)
		}
		list = append(list, p)
	}
	return list
}
