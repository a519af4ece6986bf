package model

import (
	"strings"
	"testing"
)

func TestSI(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 0.5: "0.5", 9.994: "9.99", 12.34: "12.3", 123.4: "123", 999.6: "1k", 40330: "40.3k", 1e6: "1M", 1.234e6: "1.23M", -2500: "-2.5k", 5e12: "5T", -0.001: "0", 0.25: "0.25", 1: "1", 999: "999", 999.4: "999", 1234: "1.23k", 1234567: "1.23M", 9.99e8: "999M", 1e9: "1G", 2.5e12: "2.5T",
	} {
		if got := SI(x); got != want {
			t.Errorf("SI(%v) = %q, want %q", x, got, want)
		}
	}
}

func TestReasonIsOneSentence(t *testing.T) {
	r := Reason{VM: "a", Code: CodeOutranked, Policy: "activity", Score: 40330, Rank: 64, Slots: 63, Other: "b", OtherNm: "db-1"}
	if got := (Reason{Code: CodeOutranked, Policy: "fair", Rank: 2, Slots: 1}).String(); !strings.HasPrefix(got, "stays on virtio: fair ranks it 2 and there is 1 VF to share out,") {
		t.Errorf("one VF: %q", got)
	}
	if got, want := r.String(), "stays on virtio: activity ranks it 64 and there are 63 VFs to share out, score 40.3k packets/s, to beat db-1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r = Reason{Code: CodeRepair, Detail: "VF pf0/1 is free but trusted"}
	if got, want := r.String(), "repair: VF pf0/1 is free but trusted"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestReasonNamesTheUnitOfRegret(t *testing.T) {
	r := Reason{Code: CodeKept, Hold: true, Policy: "adaptive", Rank: 64, Score: 40500, Price: 40400, Regret: 105000, Detail: "steady style"}
	if got, want := r.String(), "holds a VF: a swap does not pay yet, score 40.5k packets/s, price 40.4k packets/s, regret 105k packets (steady style)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
