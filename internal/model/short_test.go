package model

import (
	"testing"
	"unicode/utf8"
)

// Every code has its few words, which fit a column whatever the figures are.
func TestShort(t *testing.T) {
	codes := []Code{
		CodeEnough, CodePinned, CodeForbidden, CodeRank, CodeOutranked, CodeTurn, CodeWaiting, CodeKept, CodeBlind, CodeVeto, CodeForeign,
		CodeNoVF, CodeBackoff, CodeMoving, CodeDrain, CodeBudget, CodeNotNeeded, CodeReleased, CodeSLA,
	}
	for _, code := range codes {
		for _, hold := range []bool{true, false} {
			r := Reason{Code: code, Hold: hold, Rank: 10000, Slots: 9999, Detail: "x"}
			have := r.Short()
			if n := utf8.RuneCountInString(have); n == 0 || n > ShortReason {
				t.Errorf("%s: %q has %d columns, want 1 to %d", code, have, n, ShortReason)
			}
			same := code == CodePinned || code == CodeForbidden
			if have == string(code) != same {
				t.Errorf("%s has no words of its own: %q", code, have)
			}
		}
	}
}

// Scores have a unit: packets/s, but where a policy goes by time.
func TestScoreHasItsUnit(t *testing.T) {
	for code, want := range map[Code]string{
		CodeRank:    "holds a VF: p ranks it 1 of the 2 that get one, score 1.5k packets/s, price 2k packets/s",
		CodeWaiting: "holds a VF: place 1 in the queue for 2 VFs, score 1.5k s with a VF, price 2k s with a VF",
	} {
		r := Reason{Code: code, Hold: true, Policy: "p", Rank: 1, Slots: 2, Score: 1500, Price: 2000}
		if have := r.String(); have != want {
			t.Errorf("have %q, want %q", have, want)
		}
	}
}
