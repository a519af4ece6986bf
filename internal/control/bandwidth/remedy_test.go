package bandwidth

import (
	"strings"
	"testing"

	"sluice/internal/model"
)

// If more is guaranteed than there is, the remedy says how to change each guarantee.
func TestRemedyNamesCommands(t *testing.T) {
	for source, want := range map[string]string{
		"sluice sla set by bob": "set at run time: `sluice sla set VM` or `sluice sla clear VM`",
		"metadata of b": "metadata: replace it by `virsh metadata VM --uri urn:sluice:sla:1 --key sluice --live --config --set " +
			"'<sla guarantee=\"1Gbit\"/>'`, or above it `sluice sla set VM`",
		"sluice.yaml:4:5": "a file: change it, then `sluice reload`",
		"":                "b: not known",
	} {
		got := Admit([]Asked{{
			ID: model.NICID{VM: "b", NIC: "n0"}, VMName: "b", PF: "pf0", Speed: 10e9,
			SLA: model.SLA{Guarantee: model.Rate{Bits: 8e9}, Source: source},
		}, {
			ID: model.NICID{VM: "c", NIC: "n0"}, VMName: "c", PF: "pf0", Speed: 10e9,
			SLA: model.SLA{Guarantee: model.Rate{Bits: 8e9}, Source: source},
		}}, 0)
		if len(got.Problems) != 1 || !strings.Contains(got.Problems[0].Remedy, want) {
			t.Errorf("%q: %+v, want %q", source, got.Problems, want)
		}
	}
}
