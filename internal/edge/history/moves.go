package history

import (
	"cmp"
	"slices"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// noteMoves records the moves of a View.
func (m *Memory) noteMoves(v *model.View) {
	for i := range v.Active {
		m.note(v, &v.Active[i])
	}
	for i := range v.Recent { // newest first
		if v.Recent[i].ID == m.ended {
			break
		}
		m.note(v, &v.Recent[i])
	}
	if len(v.Recent) > 0 {
		m.ended = v.Recent[0].ID
	}
}

// note creates or replaces the record of a move. Readers may have the previous record, so it is not changed.
func (m *Memory) note(v *model.View, s *model.MoveStatus) {
	r := &api.MoveRecord{ID: s.ID, Move: answer.MoveOf(s), Steps: answer.StepTimes(s)}
	at, found := slices.BinarySearchFunc(m.moves, s.ID, func(r *api.MoveRecord, id uint64) int { return cmp.Compare(r.ID, id) })
	if found {
		r.Reason, r.Sentence = m.moves[at].Reason, m.moves[at].Sentence
		m.moves[at] = r
		return
	}
	if s.Move.Reason.Code != "" {
		reason := answer.ReasonOf(&s.Move.Reason)
		r.Reason = &reason
		if s.Move.Kind != model.MoveRepair { // the reason of a repair is not a verdict
			r.Sentence = answer.Sentence(v, s.Move.VM, s.Move.Reason)
		}
	}
	m.moves = slices.Insert(m.moves, at, r)
}
