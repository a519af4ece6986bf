// Package monitoring checks the files installed for Prometheus and Grafana against the metrics that the daemon exports. It has tests
// only.
package monitoring_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"sluice/internal/edge/fleet/prometheus"
)

// labelsOf maps the name of every scraped metric to its labels.
type labelsOf map[string][]string

// metricsTable parses the tables of docs/metrics.md and docs/fleet.md; tests of packages metrics and fleet keep them current.
func metricsTable(t *testing.T) labelsOf {
	t.Helper()
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	ofFleet, err := os.ReadFile("../../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, ofFleet...)
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (gauge|counter|summary) \\| ([a-z_, ]*) \\|")
	all := labelsOf{"up": nil} // added by Prometheus for every target
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		var labels []string
		if m[3] != "" {
			labels = strings.Split(m[3], ", ")
		}
		if m[2] == "summary" {
			all[m[1]+"_sum"], all[m[1]+"_count"] = labels, labels
		} else {
			all[m[1]] = labels
		}
	}
	if len(all) < 50 {
		t.Fatalf("found only %d metrics", len(all))
	}
	return all
}

// has reports whether the series of a metric have a label; Prometheus adds its target's labels to every metric.
func (l labelsOf) has(metric, label string) bool {
	return label == "instance" || label == "job" || slices.Contains(l[metric], label)
}

// check returns the metrics and labels of an expression that the daemon does not export.
func (l labelsOf) check(t *testing.T, expr string) (wrong []string) {
	t.Helper()
	all := selectors(t, expr)
	if len(all) == 0 {
		wrong = append(wrong, "reads no metric: "+expr)
	}
	for _, v := range all {
		if _, ok := l[v.Name]; !ok {
			wrong = append(wrong, fmt.Sprintf("no metric %q", v.Name))
			continue
		}
		for _, m := range v.LabelMatchers {
			if m.Name != "__name__" && !l.has(v.Name, m.Name) {
				wrong = append(wrong, fmt.Sprintf("%s has no label %q", v.Name, m.Name))
			}
		}
	}
	for part, labels := range grouped(t, expr) {
		for _, label := range labels {
			if !slices.ContainsFunc(selectors(t, part), func(v *parser.VectorSelector) bool { return l.has(v.Name, label) }) {
				wrong = append(wrong, fmt.Sprintf("%q is no label of anything in %s", label, part))
			}
		}
	}
	return wrong
}

// grouped returns the labels by which the parts of an expression are grouped or matched.
func grouped(t *testing.T, expr string) map[string][]string {
	t.Helper()
	e, err := parser.ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	by := map[string][]string{}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			by[n.Expr.String()] = append(by[n.Expr.String()], n.Grouping...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil && n.VectorMatching.On {
				for _, side := range []parser.Expr{n.LHS, n.RHS} {
					by[side.String()] = append(by[side.String()], n.VectorMatching.MatchingLabels...)
				}
			}
		}
		return nil
	})
	return by
}

// The check itself finds errors.
func TestCheck(t *testing.T) {
	known := metricsTable(t)
	for expr, want := range map[string]string{
		`sluice_vm_score{domain="a",instance="b"}`:   "",
		`sluice_vm_scores`:                           `no metric "sluice_vm_scores"`,
		`sluice_vm_score{pf="a"}`:                    `sluice_vm_score has no label "pf"`,
		`sum by (pf) (sluice_vm_score)`:              `"pf" is no label of anything in sluice_vm_score`,
		`sluice_vm_score * on (uuid) sluice_pf_up`:   `"uuid" is no label of anything in sluice_pf_up`,
		`rate(sluice_plug_duration_seconds_sum[5m])`: "",
		`1 + 1`: "reads no metric",
	} {
		got := strings.Join(known.check(t, expr), "; ")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

// What `sluice fleet place --prometheus` asks is exported by the daemon.
func TestLoadOfTheFleet(t *testing.T) {
	known := metricsTable(t)
	for _, wrong := range known.check(t, prometheus.Query) {
		t.Error(wrong)
	}
	if labels := known["sluice_pf_info"]; !slices.Contains(labels, "pci_address") {
		t.Errorf("sluice_pf_info has %v", labels)
	}
}
