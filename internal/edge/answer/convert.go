package answer

import (
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
)

// What follows turns the model's nouns into those of the API, which programs elsewhere
// read: fields of the model may change, those of the API may not.

// ReasonOf is a Reason as the API shows it.
func ReasonOf(r *model.Reason) api.Reason {
	return api.Reason{
		VM: string(r.VM), Code: string(r.Code), Hold: r.Hold, Policy: r.Policy, Score: r.Score, Price: r.Price, Regret: r.Regret,
		Rank: r.Rank, Slots: r.Slots, Worth: r.Worth, Bursts: api.Bursts{Length: r.Bursts.High, Between: r.Bursts.Low, Seen: r.Bursts.Seen},
		Other: string(r.Other), OtherNm: r.OtherNm, Rate: r.Rate, Until: r.Until, Detail: r.Detail,
	}
}

func trafficOf(t *model.Traffic) api.Traffic {
	return api.Traffic{
		RxPPS: t.RxPPS, TxPPS: t.TxPPS, RxBytes: t.RxBytes, TxBytes: t.TxBytes,
		Source: string(t.Source), At: t.At, Known: t.Known, Proof: string(t.Proof), Note: t.Note, Waiting: t.Waiting,
	}
}

// Problems are what doctor found, as the API gives them.
func Problems(list []model.Problem) []api.Problem {
	out := make([]api.Problem, 0, len(list))
	for _, p := range list {
		out = append(out, api.Problem{Subject: p.Subject, Text: p.Text, Remedy: p.Remedy, Info: p.Info})
	}
	return out
}

func overrideOf(o *model.Override) api.Override {
	return api.Override{
		Kind: api.Verb(o.Kind), ID: string(o.VM), Name: o.VMName, By: o.By, UID: o.UID, At: o.At, Reason: o.Reason, Until: o.Until,
		NIC: o.NIC, SLA: slaText(&o.SLA),
	}
}

// Overrides lists what people asked for at run time, oldest first.
func Overrides(v *model.View) []api.Override {
	list := []api.Override{}
	for i := range NewIndex(v).Overrides {
		list = append(list, overrideOf(&v.Overrides[i]))
	}
	return list
}

// report is all there is to say of a move.
func report(s *model.MoveStatus) api.MoveReport {
	r := MoveOf(s)
	for _, step := range s.Move.Steps {
		r.Steps = append(r.Steps, step.String())
	}
	r.StepTimes = StepTimes(s)
	return r
}

// MoveOf is a move without its steps.
func MoveOf(s *model.MoveStatus) api.MoveReport {
	m := &s.Move
	r := api.MoveReport{
		Kind: string(m.Kind), VM: m.VMName, ID: string(m.VM), VF: vfName(m.VF), Step: s.Step, Try: s.Try,
		Undoing: s.Undoing, Started: s.Started, Ended: s.Ended, Error: s.Error,
	}
	if !s.Ended.IsZero() {
		r.Took = s.Ended.Sub(s.Started).Round(time.Microsecond).Seconds()
	}
	if m.Reason.Code != "" {
		r.Why = m.Reason.String()
	}
	return r
}

// StepTimes are those of a move.
func StepTimes(s *model.MoveStatus) []api.StepTime {
	var out []api.StepTime
	for _, t := range s.Times {
		out = append(out, api.StepTime{Step: string(t.Kind), From: t.From, To: t.To, Tries: t.Tries, Undo: t.Undo, Error: t.Error})
	}
	return out
}
