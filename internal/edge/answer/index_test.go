package answer_test

import (
	"errors"
	"testing"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/edge/edgetest"
)

func TestFind(t *testing.T) {
	_, err := answer.Find(edgetest.View(), "nobody")
	var r *api.Error
	if !errors.As(err, &r) || r.Remedy == "" {
		t.Errorf("have %v", err)
	}
}

func TestNaturalOrder(t *testing.T) {
	sorted := []string{"", "a", "a1", "a2", "a02", "a10", "a10b", "b", "web", "web-2", "web-10", "web-18446744073709551616"}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := answer.Natural(a, b); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("Natural(%q, %q) = %d", a, b, got)
			}
		}
	}
}
