package web

import (
	"fmt"
	"time"

	"sluice/internal/model"
)

// Examine is what looks a Snapshot over for problems; the wiring supplies it.
type Examine func(*model.Snapshot) []model.Problem

// Diagnose lists what stands in the way: what the daemon itself suffers from, then what
// examine finds in the Snapshot (nil: what the Snapshot says of itself). A look at the
// host older than stale counts as a problem; 0 is never.
func Diagnose(v *model.View, examine Examine, now time.Time, stale time.Duration) []model.Problem {
	list := []model.Problem{}
	if !Looked(v) {
		list = append(list, model.Problem{Text: "the host has not been looked at yet", Remedy: "wait a moment; if it stays, read the log: journalctl -u sluice"})
	}
	if v != nil {
		for _, text := range v.Errors {
			list = append(list, model.Problem{Text: text, Remedy: "put that right; the daemon goes on with what it had, and its log says more: journalctl -u sluice"})
		}
	}
	if !Looked(v) {
		return list
	}
	if age := now.Sub(v.Snapshot.Time); stale > 0 && age > stale {
		list = append(list, model.Problem{
			Text:   fmt.Sprintf("the last look at the host is %s old", age.Round(time.Second)),
			Remedy: "check that libvirt answers (virsh list) and read the log: journalctl -u sluice",
		})
	}
	list = append(list, bandwidthOf(v).Problems...)
	if examine == nil {
		return append(list, v.Snapshot.Problems...)
	}
	return append(list, examine(v.Snapshot)...)
}
