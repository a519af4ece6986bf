package placement

import (
	"time"

	"sluice/internal/model"
)

// none gives nobody a VF: the paravirtual baseline that other policies are compared with.
type none struct{}

func newNone(model.Rules) Policy { return &none{} }

// Select implements Policy.
func (none) Select(_ time.Time, cands []Candidate, _ int, out []model.Reason) {
	for i := range cands {
		out[i] = model.Reason{VM: cands[i].VM, Code: model.CodeWaiting, Policy: "none"}
	}
}
