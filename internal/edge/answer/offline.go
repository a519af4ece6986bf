package answer

import (
	"sluice/api/v1"
	"sluice/internal/model"
)

// Offline is what `sluiced --offline` prints: the answers that a daemon would give.
type Offline struct {
	Plan api.Plan `json:"plan"`
	Fsck api.Fsck `json:"fsck"`
}

// NewOffline builds the answers from a View that was made without a daemon.
func NewOffline(v *model.View) *Offline {
	return &Offline{Plan: Planned(v), Fsck: Checked(v)}
}

// Checklist is what `sluiced --doctor` prints: every check, and those that did not pass as problems.
func Checklist(list []model.Check) api.Doctor {
	d := api.Doctor{Problems: []api.Problem{}}
	for _, c := range list {
		d.Checks = append(d.Checks, api.Check{Subject: c.Subject, Result: string(c.Result), Text: c.Text, Remedy: c.Remedy})
		if c.Result != model.CheckPass {
			d.Problems = append(d.Problems, api.Problem{Subject: c.Subject, Text: c.Text, Remedy: c.Remedy, Info: c.Result == model.CheckWarn})
		}
	}
	return d
}
