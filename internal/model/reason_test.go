package model

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Every code has an entry in the table, and the short texts fit a column whatever the values are.
func TestEveryCodeHasItsWords(t *testing.T) {
	source, err := os.ReadFile("reasons.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared []Code
	for _, m := range regexp.MustCompile(`(?m)^\tCode\w+ +Code = "(.*)"$`).FindAllSubmatch(source, -1) {
		declared = append(declared, Code(m[1]))
	}
	listed := Codes()
	slices.Sort(declared)
	slices.Sort(listed)
	if !slices.Equal(declared, listed) || len(listed) < 20 {
		t.Errorf("declared: %v\nin the table: %v", declared, listed)
	}
	for _, code := range listed {
		if code.Means() == "" {
			t.Errorf("%s has no meaning", code)
		}
		for _, hold := range []bool{true, false} {
			r := Reason{Code: code, Hold: hold, Policy: "p", Rank: 10000, Slots: 9999, Detail: "x"}
			have := r.Short()
			if n := utf8.RuneCountInString(have); n == 0 || n > ShortReason {
				t.Errorf("%s: %q has %d columns, want 1 to %d", code, have, n, ShortReason)
			}
			same := code == CodePinned || code == CodeForbidden
			if have == string(code) != same {
				t.Errorf("%s has no words of its own: %q", code, have)
			}
			if text := have + r.String(); strings.ContainsAny(text, "{}") || !strings.Contains(r.String(), ": ") {
				t.Errorf("%s: %q", code, text)
			}
		}
	}
	unknown := Reason{Code: "new"}
	if unknown.Short() != "new" || unknown.String() != "stays on virtio: new" || Code("new").Means() != "" {
		t.Errorf("%q, %q", unknown.Short(), unknown.String())
	}
}

// Scores have a unit: packets/s, unless a policy counts time.
func TestScoreHasItsUnit(t *testing.T) {
	for code, want := range map[Code]string{
		CodeRank:    "holds a VF: p ranks it 1 of the 2 that get one, score 1.5k packets/s, price 2k packets/s",
		CodeWaiting: "holds a VF: number 1 in the queue for 2 VFs, score 1.5k s with a VF, price 2k s with a VF",
	} {
		r := Reason{Code: code, Hold: true, Policy: "p", Rank: 1, Slots: 2, Score: 1500, Price: 2000}
		if have := r.String(); have != want {
			t.Errorf("have %q, want %q", have, want)
		}
	}
}

func TestReasonIsOneSentence(t *testing.T) {
	r := Reason{VM: "a", Code: CodeOutranked, Policy: "activity", Score: 40330, Rank: 64, Slots: 63, Other: "b", OtherNm: "db-1"}
	if got := (Reason{Code: CodeOutranked, Policy: "fair", Rank: 2, Slots: 1}).String(); !strings.HasPrefix(got,
		"stays on virtio: fair ranks it 2, and there is 1 VF to assign,") {
		t.Errorf("one VF: %q", got)
	}
	want := "stays on virtio: activity ranks it 64, and there are 63 VFs to assign, score 40.3k packets/s, to beat db-1"
	if got := r.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r = Reason{Code: CodeRepair, Detail: "VF pf0/1 is free but trusted"}
	if got, want := r.String(), "repair: VF pf0/1 is free but trusted"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestReasonNamesTheUnitOfRegret(t *testing.T) {
	r := Reason{Code: CodeKept, Hold: true, Policy: "adaptive", Rank: 64, Score: 40500, Price: 40400, Regret: 105000, Detail: "steady style"}
	if got, want := r.String(), "holds a VF: a swap does not pay off yet, score 40.5k packets/s, price 40.4k packets/s, regret 105k "+
		"packets (steady style)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
