package reproduce

import (
	"context"

	"sluice/internal/research/scenario"
)

var daqs = []Experiment{{Figure: "ip-link", Run: daqsLimit}}

// daqsLimit finds the highest limit of the best-effort VM, in steps of 1 Gbit/s, with which the guaranteed VM has 99 % of its 15 Gbit/s.
func daqsLimit(ctx context.Context) (*Measured, error) {
	protects := 0.0
	for limit := 37; limit > 0 && protects == 0; limit-- {
		r, err := play(ctx, "daqs-static-limits.yaml", func(s *scenario.Scenario) {
			a := s.Bandwidth.Allocators[1]
			a.Limit.Bits = uint64(limit) * 1e9 //nolint:gosec // positive
			s.Bandwidth.Allocators = []scenario.Allocator{a}
		})
		if err != nil {
			return nil, err
		}
		if r.Guaranteed.Allocators[0].Satisfied >= 99 {
			protects = float64(limit)
		}
	}
	return numbers(map[string]float64{"limit of the best-effort VM": protects}), nil
}
