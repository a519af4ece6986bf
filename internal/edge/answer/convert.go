package answer

import (
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
)

// The functions below convert types of the model to types of the API. Other programs depend on the API's types, which must
// stay stable; the model's may change.

// ReasonOf converts a Reason to its API type.
func ReasonOf(r *model.Reason) api.Reason {
	return api.Reason{
		VM: string(r.VM), Code: string(r.Code), Hold: r.Hold, Policy: r.Policy, Score: r.Score, Price: r.Price, Regret: r.Regret,
		Gain: r.Gain, Cost: r.Cost, Style: r.Style,
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

// convert applies f to each element. The result is never nil: an empty list must not become null in JSON.
func convert[T, U any](in []T, f func(*T) U) []U {
	out := make([]U, len(in))
	for i := range in {
		out[i] = f(&in[i])
	}
	return out
}

// Problems converts what doctor found to API types.
func Problems(list []model.Problem) []api.Problem {
	return convert(list, func(p *model.Problem) api.Problem { return api.Problem(*p) })
}

func overrideOf(o *model.Override) api.Override {
	return api.Override{
		Kind: api.Verb(o.Kind), ID: string(o.VM), Name: o.VMName, By: o.By, UID: o.UID, At: o.At, Reason: o.Reason, Until: o.Until,
		NIC: o.NIC, SLA: slaText(&o.SLA),
	}
}

// Overrides lists what users requested at run time, oldest first.
func Overrides(v *model.View) []api.Override {
	return convert(NewIndex(v).Overrides, overrideOf)
}

// report returns a move with its steps.
func report(s *model.MoveStatus) api.MoveReport {
	r := MoveOf(s)
	r.Steps, r.StepTimes = stepNames(s.Move.Steps), StepTimes(s)
	return r
}

func stepNames(steps []model.Step) []string {
	return convert(steps, func(s *model.Step) string { return s.String() })
}

// MoveOf returns a move without its steps.
func MoveOf(s *model.MoveStatus) api.MoveReport {
	m := &s.Move
	r := api.MoveReport{
		Kind: string(m.Kind), VM: m.VMName, ID: string(m.VM), VF: vfName(m.VF), Step: s.Step, Try: s.Try,
		Undoing: s.Undoing, Started: s.Started, Ended: s.Ended, Error: s.Error,
	}
	if !s.Ended.IsZero() {
		r.Took = s.Ended.Sub(s.Started).Round(time.Microsecond).Seconds()
	}
	r.Why, r.Cause = moveText(m, false), causeOf(&m.Cause)
	return r
}

// moveText says what a move, or one that would be made, does and why; "" if that is not known.
func moveText(m *model.Move, would bool) string {
	text := func(does, conditional string) string {
		if would {
			does = conditional
		}
		return does + ": " + m.Reason.Because()
	}
	switch {
	case m.Reason.Code == "":
		return ""
	case m.Kind == model.MoveRepair:
		return m.Reason.String()
	case m.Kind == model.MovePlug:
		return text("gets a VF", "would get a VF")
	case m.Reason.Hold:
		return text("changes to another VF", "would change to another VF")
	}
	return text("goes back to virtio", "would go back to virtio")
}

func causeOf(c *model.Cause) *api.Cause {
	if c.Kind == "" {
		return nil
	}
	return &api.Cause{Kind: string(c.Kind), Text: c.String(), PF: c.PF, By: c.By, Other: c.OtherNm, OtherID: string(c.Other)}
}

// StepTimes returns the step times of a move.
func StepTimes(s *model.MoveStatus) []api.StepTime {
	return convert(s.Times, func(t *model.StepTime) api.StepTime {
		return api.StepTime{Step: string(t.Kind), From: t.From, To: t.To, Tries: t.Tries, Undo: t.Undo, Error: t.Error}
	})
}
