package report_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/research/report"
	"sluice/internal/research/scenario"
)

// both returns the table and the page.
func both(t *testing.T, r *scenario.Result) (table, page string) {
	t.Helper()
	var tab, html bytes.Buffer
	if err := errors.Join(report.Table(&tab, r), report.HTML(&html, r, report.About{})); err != nil {
		t.Fatal(err)
	}
	return tab.String(), html.String()
}

// What a policy learned is in the table and on the page: at the end of the run, and of each phase whose groups are shown.
func TestLearnedIsShown(t *testing.T) {
	r := result(t, scenario.RunOptions{})
	if table, page := both(t, r); strings.Contains(table, "LEARNED") || strings.Contains(page, "learned") {
		t.Errorf("neither activity nor random learns:\n%s", table)
	}
	o := &r.Policies[0]
	o.Phases = []scenario.Phase{
		{Until: 2 * time.Minute, Learned: []scenario.LearnedStat{{Group: "early", VMs: 6, Known: 1, Burst: 31.2, Between: 59.8, Seen: 1}}},
		{Until: 5 * time.Minute, Learned: []scenario.LearnedStat{{Group: "web", VMs: 6, Known: 5, Burst: 47.9, Between: 110, Seen: 20}}},
	}
	const early, late = "early       6    1      31 s   1m       1\n", "web         6    5      48 s   1m50s    20\n"
	const row = "<td>activity</td><td>5m</td><td class=\"text\">web</td><td>6</td><td>5</td><td>48 s</td><td>1m50s</td><td>20</td>"
	table, page := both(t, r)
	if !strings.Contains(table, "LEARNED OF  VMS  KNOWN  BURST  BETWEEN  SEEN\n"+late) || strings.Contains(table, early) {
		t.Errorf("want the end of the run alone:\n%s", table)
	}
	if !strings.Contains(page, row) || strings.Contains(page, "early") || !strings.Contains(page, "LEARNED OF: ") {
		t.Error("the page has something else than the end of the run")
	}
	o.Phases[0].Groups = []scenario.GroupStat{{Group: "web"}}
	if table, page = both(t, r); !strings.Contains(table, early) || !strings.Contains(table, late) ||
		!strings.Contains(page, "<td>31 s</td>") {
		t.Errorf("want both phases:\n%s", table)
	}
}

// A trace has a group for each VM, of which only those with the most bursts are listed.
func TestMuchLearnedIsCut(t *testing.T) {
	r := result(t, scenario.RunOptions{})
	ph := &r.Policies[0].Phases[0]
	for i := range 40 {
		ph.Learned = append(ph.Learned, scenario.LearnedStat{Group: fmt.Sprintf("vm-%d-", i), VMs: 1, Known: 1, Seen: i + 1})
	}
	table, page := both(t, r)
	for _, text := range []string{table, page} {
		if n := strings.Count(text, "vm-"); n != 12 || !strings.Contains(text, "vm-39-") || !strings.Contains(text, "vm-28-") {
			t.Errorf("%d groups, want vm-28 to vm-39:\n%s", n, table)
		}
	}
	if !strings.Contains(table, "and of 28 groups more: see -o json\n") {
		t.Errorf("nothing says that there are more:\n%s", table)
	}
	if ph.Learned[0].Group != "vm-0-" {
		t.Error("the result was sorted")
	}
}
