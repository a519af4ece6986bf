package placement

import (
	"time"

	"sluice/internal/model"
)

// none gives nobody a VF: the paravirtual baseline that others are measured against.
type none struct{}

func newNone(model.Rules) Policy { return &none{} }

// Select implements Policy.
func (none) Select(_ time.Time, cands []Candidate, _ int, out []model.Reason) {
	for i := range cands {
		out[i] = model.Reason{VM: cands[i].VM, Code: model.CodeWaiting, Policy: "none"}
	}
}
