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
		CodeRank:    "rank 1, VFs for 2; score 1.5k packets/s; price 2k packets/s",
		CodeWaiting: "rank 1, VFs for 2; score 1.5k s with a VF; price 2k s with a VF",
	} {
		r := Reason{Code: code, Hold: true, Policy: "p", Rank: 1, Slots: 2, Score: 1500, Price: 2000}
		if have := r.FiguresText(); have != want {
			t.Errorf("have %q, want %q", have, want)
		}
	}
}

func TestReasonIsOneSentence(t *testing.T) {
	kept := Reason{Code: CodeKept, Policy: "adaptive", Rank: 64, Regret: 5000, OtherNm: "web-10", Gain: 15000, Cost: 380000, Style: "quick"}
	swap := "rank 64, VFs for 0; score 0 packets/s; regret 5k packets; swap 15k packets of 380k; style quick"
	if have := kept.FiguresText(); have != swap {
		t.Errorf("%q, want %q", have, swap)
	}
	for want, r := range map[string]Reason{
		"stays on virtio: others come first":                                                     {Code: CodeOutranked, Policy: "fair", Rank: 2, Slots: 1},
		"stays on virtio: those with a VF gain more from it, the least of them db-1":             {Code: CodeOutranked, Rank: 64, Slots: 63, OtherNm: "db-1"},
		"holds a VF: it gains more from a VF than db-1, the next in line":                        {Code: CodeRank, Hold: true, Rank: 1, OtherNm: "db-1"},
		"stays on virtio: its turn comes later, it is number 5 in the queue for 1 VF":            {Code: CodeWaiting, Rank: 5, Slots: 1, OtherNm: "db-1"},
		"stays on virtio: nobody gets a VF":                                                      {Code: CodeWaiting, Policy: "none"},
		"stays on virtio: a move from web-10 would gain too little (15k packets; it costs 380k)": kept,
		"repair: VF pf0/1 is free but trusted":                                                   {Code: CodeRepair, Detail: "VF pf0/1 is free but trusted"},
	} {
		if got := r.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What people read first has none of the terms of a policy, says different things of those that hold a VF and of those that wait, and
// stays true where `sluice top` cuts it off: it is not left with the beginning of a sentence.
func TestReasonsAreInPlainWords(t *testing.T) {
	for _, code := range Codes() {
		var both []string
		for _, hold := range []bool{true, false} {
			for _, other := range []string{"", "web-10"} {
				r := Reason{
					Code: code, Hold: hold, Policy: "adaptive", Score: 1500, Price: 2000, Regret: 3000, Rank: 7, Slots: 5, OtherNm: other,
					Gain: 1, Cost: 2, Style: "quick", Rate: 1e9, Worth: 3,
				}
				text := strings.ToLower(r.String() + " " + r.Short())
				for _, term := range []string{"score", "price", "regret", "rank", "style", "adaptive", "worth", "tier", "slot"} {
					if strings.Contains(text, term) {
						t.Errorf("%s: %q says %q", code, text, term)
					}
				}
				both = append(both, r.String())
			}
		}
		if both[1] == both[3] && code != CodeRepair {
			t.Errorf("%s says %q of holders and of others", code, both[1])
		}
	}
}
