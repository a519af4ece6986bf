package reproduce_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"sluice/internal/research/published"
	"sluice/internal/research/report"
	"sluice/internal/research/reproduce"
	"sluice/internal/tests/golden"
)

// The pages on the papers show what `sluice reproduce --sweep` prints, and every conclusion that is tried holds somewhere.
func TestPages(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	list, err := reproduce.Run(t.Context(), reproduce.Options{Sweep: true})
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	all.WriteString("| paper | experiments | derived | fitted | contradicted | out of scope |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, c := range report.Counts(list) {
		fmt.Fprintf(&all, "| %s | %d | %d | %d | %d | %d |\n", c.System, c.Experiments, c.Derived, c.Fitted, c.Contradicted, c.OutOfScope)
	}
	checkFormats(t, list)
	golden.Section(t, "../../../docs/papers/README.md", "all", all.String())
	for _, p := range published.Papers() {
		var of []*reproduce.Outcome
		for _, x := range list {
			if x.Paper == p {
				of = append(of, x)
			}
			for _, s := range x.Sweeps {
				if s.Range() == "for none" {
					t.Errorf("%s %s, %s: that %s holds %s", x.Paper.Name, x.Figure.Name, s.Open, s.Conclusion, s.Range())
				}
			}
		}
		var text strings.Builder
		if err := report.Reproduced(&text, of); err != nil {
			t.Fatal(err)
		}
		golden.Section(t, "../../../docs/papers/"+p.Name+".md", "table", "```text\n"+text.String()+"```\n")
	}
}

// checkFormats checks that all can be written for programs, and that each figure with axes is drawn.
func checkFormats(t *testing.T, list []*reproduce.Outcome) {
	t.Helper()
	if err := report.ReproducedJSON(io.Discard, list); err != nil {
		t.Error(err)
	}
	var page strings.Builder
	if err := report.ReproducedHTML(&page, list, report.About{}); err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, x := range list {
		if x.Figure.Y != "" {
			want += 2 // published, and ours
		}
	}
	if got := strings.Count(page.String(), "<svg"); got != want || want == 0 {
		t.Errorf("%d figures are drawn, want %d", got, want)
	}
}
