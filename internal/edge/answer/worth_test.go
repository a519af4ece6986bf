package answer_test

import (
	"testing"

	"sluice/internal/edge/answer"
	"sluice/internal/edge/edgetest"
	"sluice/internal/model"
)

func TestWorth(t *testing.T) {
	for _, c := range []struct {
		name   string
		rule   model.VMRule
		reason model.Reason
		want   string
	}{
		{"nothing was said", model.VMRule{}, model.Reason{Code: model.CodeRank}, ""},
		{"no candidate", model.VMRule{Sensitivity: model.SensitivityHigh}, model.Reason{Code: model.CodePinned}, ""},
		{
			"high",
			model.VMRule{Sensitivity: model.SensitivityHigh},
			model.Reason{Code: model.CodeRank, Worth: 3},
			"a packet of quiet is worth 3 (latency sensitivity high: 3)",
		},
		{
			"low",
			model.VMRule{Sensitivity: model.SensitivityLow, Weight: 3},
			model.Reason{Code: model.CodeOutranked, Worth: 1.00001},
			"a packet of quiet is worth 1 (weight 3, latency sensitivity low: 0.33)",
		},
		{
			"host CPU",
			model.VMRule{},
			model.Reason{Code: model.CodeKept, Worth: 0.8},
			"a packet of quiet is worth 0.8 (host CPU on virtio: 0.8 of a packet of 512 bytes)",
		},
		{
			"turns",
			model.VMRule{Sensitivity: model.SensitivityHigh},
			model.Reason{Code: model.CodeTurn, Worth: 2.4},
			"its share of the time with a VF counts 3 (latency sensitivity high: 3)",
		},
	} {
		v := edgetest.View()
		c.rule.Match = "quiet"
		v.Rules.VMs = append(v.Rules.VMs, c.rule)
		c.reason.VM = edgetest.ID(5)
		v.Target.Reasons[4] = c.reason
		e, err := answer.Explain(v, "quiet")
		if err != nil {
			t.Fatal(err)
		}
		if e.Worth != c.want {
			t.Errorf("%s: %q, want %q", c.name, e.Worth, c.want)
		}
	}
}
