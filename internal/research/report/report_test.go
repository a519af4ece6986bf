package report_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/config"
	"sluice/internal/research/report"
	"sluice/internal/research/reproduce"
	"sluice/internal/research/scenario"
)

const text = `
text: A <b>test</b> & more
duration: 5m
pfs: [{name: pf0, vfs: 2}]
vms:
  - {name: web, count: 6, load: {shape: on-off, pps: 50000, on: 30s, off: 60s}}
policies:
  - {name: activity, interval: 10s}
  - {name: random}
show: {holders: true}
`

func result(t *testing.T, o scenario.RunOptions) *scenario.Result {
	t.Helper()
	s, err := scenario.Parse(config.Document{Name: "t.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPageStandsAlone(t *testing.T) {
	for _, o := range []scenario.RunOptions{{}, {NoOptimum: true}} {
		var b bytes.Buffer
		if err := report.HTML(&b, result(t, o), report.About{}); err != nil {
			t.Fatal(err)
		}
		page := b.String()
		for _, bad := range []string{"<script", "<link", "<img", "src=", "@import", "url(", "<b>test"} {
			if strings.Contains(page, bad) {
				t.Errorf("the page has %q", bad)
			}
		}
		for _, s := range strings.SplitAfter(page, "</svg>") {
			if i := strings.Index(s, "<svg"); i >= 0 {
				wellFormed(t, s[i:])
			}
		}
		for _, row := range []string{"<td>optimum, moves charged</td>", "<td>optimum, moves free</td><td>100.0 %</td>"} {
			if strings.Contains(page, row) == o.NoOptimum {
				t.Errorf("with %+v, %q is there: %t", o, row, o.NoOptimum)
			}
		}
		if above, _, _ := strings.Cut(page, "<table"); strings.Contains(above, "best policy here") == o.NoOptimum {
			t.Errorf("with %+v, the winner is not named above the table, or without scores", o)
		}
		want := 4 // loss, rates, two policies
		if !o.NoOptimum {
			want++
		} else {
			want--
		}
		if n := strings.Count(page, "</svg>"); n != want {
			t.Errorf("%d plots, want %d", n, want)
		}
	}
}

const guaranteed = `
duration: 20s
pfs: [{name: pf0, vfs: 8, gbit: 10}]
vms:
  - {name: gold, pin: true, guarantee: 5Gbit, load: {send: 10Gbit}}
  - {name: best-, count: 2, pin: true, flows: 3, load: {send: 10Gbit}}
bandwidth:
  allocators: [{name: none}, {name: waterfill}]
`

// Every report says first what came out, and last what made it.
func TestReportsBeginWithTheVerdict(t *testing.T) {
	about := report.About{Command: "sluice sim 'a b.yaml' --html=r.html", Version: "1.2.3"}
	kept, err := scenario.Parse(config.Document{Name: "t.yaml", Data: []byte(guaranteed)})
	if err != nil {
		t.Fatal(err)
	}
	shared, err := kept.Run(t.Context(), scenario.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	papers, err := reproduce.Run(t.Context(), reproduce.Options{Paper: "daqs"})
	if err != nil {
		t.Fatal(err)
	}
	for want, write := range map[string]func(io.Writer) error{
		"best policy here":               func(w io.Writer) error { return report.HTML(w, result(t, scenario.RunOptions{}), about) },
		"waterfill does best here":       func(w io.Writer) error { return report.HTML(w, shared, about) },
		"Of 2 experiments, 2 can be run": func(w io.Writer) error { return report.ReproducedHTML(w, papers, about) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		above, _, _ := strings.Cut(b.String(), "<table")
		if _, verdict, _ := strings.Cut(above, `<p class="verdict">`); !strings.Contains(verdict, want) {
			t.Errorf("above the first table is %q, want %q", verdict, want)
		}
		_, last, _ := strings.Cut(b.String(), "<footer>")
		if !strings.HasPrefix(last, "Made by Sluice 1.2.3: <code>sluice sim &#39;a b.yaml&#39; --html=r.html</code>") {
			t.Errorf("the last words are %q", last)
		}
	}
}

// A report of many VMs whose rates never rest, under many allocators, can be sent by mail.
func TestReportsAreSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds")
	}
	for _, file := range []string{"churn-100.yaml", "cold-link.yaml", "bursts.yaml"} {
		s, err := scenario.Open("../../../scenarios/" + file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context(), scenario.RunOptions{NoOptimum: true, Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := report.HTML(&b, r, report.About{}); err != nil {
			t.Fatal(err)
		}
		if b.Len() > 1e6 {
			t.Errorf("%s: %d bytes, want less than a million", file, b.Len())
		}
	}
}

// A shortfall is drawn in the legend's colour, times are shown only under the lowest panel, and no promise is drawn for VMs without one.
func TestGuaranteesAreDrawnAsTheLegendSays(t *testing.T) {
	s, err := scenario.Parse(config.Document{Name: "t.yaml", Data: []byte(guaranteed)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(context.Background(), scenario.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var b, tab bytes.Buffer
	if err := errors.Join(report.HTML(&b, r, report.About{}), report.Table(&tab, r)); err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(b.String(), "<svg")
	if strings.Contains(page, "#-") {
		t.Error("a colour is not valid")
	}
	first, _, _ := strings.Cut(page, "</svg>")
	wellFormed(t, "<svg"+first+"</svg>")
	if !strings.Contains(first, "fill:#D53C28") {
		t.Error("what gold lacks under none is not drawn")
	}
	if n := strings.Count(first, ">20</text>"); n != 1 {
		t.Errorf("the last time is shown %d times, want once", n)
	}
	if n := strings.Count(first, "stroke-dasharray:4,3"); n != 1 {
		t.Errorf("%d promises are drawn, want gold's alone", n)
	}
	if !strings.Contains(tab.String(), "(0.0 %)") {
		t.Errorf("percentages are not rounded alike:\n%s", tab.String())
	}
}

func wellFormed(t *testing.T, svg string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("a plot is not XML: %v", err)
		}
	}
}

func TestFormatsAgree(t *testing.T) {
	r := result(t, scenario.RunOptions{})
	var j, c, tab bytes.Buffer
	if err := errors.Join(report.JSON(&j, r), report.CSV(&c, r), report.Table(&tab, r)); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Policies []struct {
			Label string
			Net   float64 `json:"net_percent"`
		}
	}
	if err := json.Unmarshal(j.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&c).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%v, %v", rows, err)
	}
	for i, p := range back.Policies {
		net, err := strconv.ParseFloat(rows[i+1][2], 64)
		if err != nil || rows[i+1][0] != p.Label || net < p.Net-1e-3 || net > p.Net+1e-3 {
			t.Errorf("CSV says %v, JSON %+v", rows[i+1], p)
		}
		if want := strconv.FormatFloat(p.Net, 'f', 1, 64) + " %"; !strings.Contains(tab.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, tab.String())
		}
	}
	if !strings.Contains(tab.String(), "holders: ") {
		t.Error("no holders in the table")
	}
}

// The table names no VM as the worst where nothing was lost, and prints large numbers
// as people write them.
func TestTableNamesTheWorst(t *testing.T) {
	r := result(t, scenario.RunOptions{})
	r.Charge.Risk = 6e5
	lines := func() []string {
		var tab, page bytes.Buffer
		if err := errors.Join(report.Table(&tab, r), report.HTML(&page, r, report.About{})); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{tab.String(), page.String()} {
			if !strings.Contains(text, "less 600k packets for each move") {
				t.Errorf("no 600k in the legend:\n%s", text)
			}
		}
		return strings.Split(tab.String(), "\n")
	}
	for _, c := range []struct {
		net  float64
		want string
	}{{99.89, "web"}, {99.91, "-  "}, {100.2, "-  "}} {
		r.Policies[0].Net = c.net
		if row := lines()[4]; !strings.HasPrefix(row, "activity") || !strings.Contains(row, "%  "+c.want) {
			t.Errorf("net %v: %q", c.net, row)
		}
	}
}

// Names come from traces, which come from anywhere.
func TestNamesDoNoHarm(t *testing.T) {
	const ill = "\x1b]0;x\a\n"
	r := result(t, scenario.RunOptions{})
	r.Text = "a text" + ill
	for i := range r.Policies {
		o := &r.Policies[i]
		o.Label, o.Worst.VM, o.Net = "=1+1"+ill, "@SUM(A1)"+ill, 50
		for k := range o.Decisions {
			o.Decisions[k].VM, o.Decisions[k].Why = "-2"+ill, "+3"+ill
		}
		for k := range o.Phases {
			o.Phases[k].Holders = []string{"a" + ill}
			o.Phases[k].Groups = append(o.Phases[k].Groups, scenario.GroupStat{Group: "g" + ill})
			o.Phases[k].Scores = append(o.Phases[k].Scores, scenario.VMScore{VM: "s" + ill})
			o.Phases[k].Learned = []scenario.LearnedStat{{Group: "l" + ill, VMs: 1, Known: 1}}
		}
	}
	for name, write := range map[string]func(io.Writer, *scenario.Result) error{
		"table": report.Table, "csv": report.CSV, "decisions": report.Decisions,
	} {
		var b bytes.Buffer
		if err := write(&b, r); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(b.String(), "\x1b\a") {
			t.Errorf("%s passes control characters to the terminal: %q", name, &b)
		}
		if name == "table" {
			continue
		}
		rows, err := csv.NewReader(&b).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows[1:] {
			for _, cell := range row {
				if _, err := strconv.ParseFloat(cell, 64); err != nil && strings.ContainsAny(cell[:min(1, len(cell))], "=+-@") {
					t.Errorf("%s: a spreadsheet computes %q", name, cell)
				}
			}
		}
	}
}
