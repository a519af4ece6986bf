package reproduce

import (
	"testing"

	"sluice/internal/research/published"
)

// Every point comes out as it is said to, and every figure is run or says why not.
func TestExperiments(t *testing.T) {
	list, err := Run(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		for _, r := range x.Rows {
			if r.Verdict == Differs || r.Verdict == Agrees {
				t.Errorf("%s %s, %s: published %v, ours %v: %s", x.Paper.Name, x.Figure.Name, r.Point.Name, r.Point.Paper, r.Ours, r.Verdict)
			}
			if (r.Verdict == Verdict(published.Fitted) || r.Verdict == Verdict(published.Contradicted)) && r.Why == "" {
				t.Errorf("%s %s, %s is %s, but nothing says why", x.Paper.Name, x.Figure.Name, r.Point.Name, r.Verdict)
			}
		}
		if (x.experiment() == nil) != (x.Figure.Outside != "") {
			t.Errorf("%s %s: want either an experiment or the reason why there is none", x.Paper.Name, x.Figure.Name)
		}
	}
}

// Every experiment belongs to a figure, and names are unique.
func TestRegistry(t *testing.T) {
	for name, list := range registry {
		p := published.Find(name)
		if p == nil {
			t.Fatalf("no paper %s", name)
		}
		for _, e := range list {
			if p.Figure(e.Figure) == nil {
				t.Errorf("%s has no %s", name, e.Figure)
			}
		}
	}
	for _, p := range published.Papers() {
		figures := map[string]bool{}
		for _, f := range p.Figures {
			if figures[f.Name] || f.Title == "" || f.Source == "" {
				t.Errorf("%s %s: twice, or without title or source", p.Name, f.Name)
			}
			figures[f.Name] = true
			points := map[string]bool{}
			for _, x := range f.Points {
				if points[x.Name] {
					t.Errorf("%s %s has two points %q", p.Name, f.Name, x.Name)
				}
				points[x.Name] = true
			}
		}
	}
}

// judge finds what is not as it is said to be.
func TestJudge(t *testing.T) {
	at := func(s published.Statement) *published.Point { return &published.Point{Paper: s, Within: 1} }
	for _, c := range []struct {
		paper  published.Statement
		ours   Value
		status published.Status
		want   Verdict
	}{
		{published.Is(10), Value{Number: 10.9}, published.Derived, "derived"},
		{published.Is(10), Value{Number: 11.1}, published.Derived, Differs},
		{published.Is(10), Value{Number: 11.1}, published.Contradicted, "contradicted"},
		{published.Is(10), Value{Number: 9.5}, published.Contradicted, Agrees},
		{published.AtLeast(10), Value{Number: 1e9}, published.Fitted, "fitted"},
		{published.AtLeast(10), Value{Number: 8}, published.Fitted, Differs},
		{published.Between(10, 20), Value{Number: 21}, published.Fitted, "fitted"},
		{published.Words("a b"), Value{Words: "a b"}, published.Derived, "derived"},
		{published.Words("a b"), Value{Words: "b a"}, published.Derived, Differs},
	} {
		if got := judge(at(c.paper), c.ours, c.status); got != c.want {
			t.Errorf("%v against %v, %s: %s, want %s", c.ours, c.paper, c.status, got, c.want)
		}
	}
}

func TestRanges(t *testing.T) {
	for want, holds := range map[string][]bool{
		"for none":             {false, false, false, false},
		"for all values tried": {true, true, true, true},
		"from 2 to 3":          {false, true, true, false},
		"up to 2":              {true, true, false, false},
		"from 3 on":            {false, false, true, true},
		"at 1, at 3":           {true, false, true, false},
		"at 2, at 4":           {false, true, false, true},
	} {
		if got := Ranges([]float64{1, 2, 3, 4}, holds); got != want {
			t.Errorf("%v: %s, want %s", holds, got, want)
		}
	}
}
