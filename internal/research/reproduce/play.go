package reproduce

import (
	"context"
	"fmt"

	"sluice/internal/config"
	"sluice/internal/research/scenario"
	"sluice/scenarios"
)

// play runs a scenario that comes with Sluice, as changed by change, which may be nil.
func play(ctx context.Context, file string, change func(*scenario.Scenario)) (*scenario.Result, error) {
	data, err := scenarios.Files.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s, err := scenario.Parse(config.Document{Name: file, Data: data})
	if err != nil {
		return nil, err
	}
	if change != nil {
		change(s)
	}
	return s.Run(ctx, scenario.RunOptions{NoOptimum: true})
}

// policy returns the outcome of a policy, by its label.
func policy(r *scenario.Result, label string) (*scenario.Outcome, error) {
	for i := range r.Policies {
		if r.Policies[i].Label == label {
			return &r.Policies[i], nil
		}
	}
	return nil, fmt.Errorf("%s has no policy %q", r.File, label)
}

// allocator returns the outcome of an allocator, by its label.
func allocator(r *scenario.Result, label string) (*scenario.Kept, error) {
	for i := range r.Guaranteed.Allocators {
		if r.Guaranteed.Allocators[i].Label == label {
			return &r.Guaranteed.Allocators[i], nil
		}
	}
	return nil, fmt.Errorf("%s has no allocator %q", r.File, label)
}

// numbers makes a Measured of numbers.
func numbers(list map[string]float64) *Measured {
	m := &Measured{Values: map[string]Value{}}
	for name, x := range list {
		m.Values[name] = Value{Number: x}
	}
	return m
}
