package monitoring_test

import (
	"cmp"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/prometheus/promql/parser"

	"sluice/internal/control/plan"
)

const (
	rulesDir  = "../../../packaging/prometheus"
	rulesFile = rulesDir + "/sluice.rules.yaml"
	testsFile = rulesDir + "/sluice.rules.test.yaml"
	runbook   = "../../../docs/runbook.md"
	// Where the package installs it, unless Prometheus says where it is.
	runbookAt = "{{ with $externalLabels.sluice_docs }}{{ . }}{{ else }}file:///usr/share/doc/sluice/docs{{ end }}/runbook.md#"
)

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path) //nolint:gosec // a file of the repository
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func parse(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.UnmarshalWithOptions([]byte(read(t, path)), into, yaml.Strict()); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func alerts(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	parse(t, rulesFile, &file)
	var all []rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	return all
}

func promtool(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	if os.Getenv("SLUICE_TEST_NO_PROMTOOL") == "1" {
		t.Skip("SLUICE_TEST_NO_PROMTOOL=1")
	}
	cmd := exec.CommandContext(t.Context(), "promtool", args...) // from the package prometheus
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestRules(t *testing.T) {
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", filepath.Base(rulesFile)},
		{"test", "rules", filepath.Base(testsFile)},
	} {
		if out, err := promtool(t, rulesDir, args...); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// unit is one block of the tests that promtool runs.
type unit struct {
	Name     string            `yaml:"name"`
	Every    string            `yaml:"interval"`
	External map[string]string `yaml:"external_labels"`
	Series   []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Alerts []struct {
		At    string `yaml:"eval_time"`
		Alert string `yaml:"alertname"`
		Want  []struct {
			Labels      map[string]string `yaml:"exp_labels"`
			Annotations map[string]string `yaml:"exp_annotations"`
		} `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
}

// The promtool tests show each alert firing, and silent although all its metrics exist.
func TestEveryAlertFiresAndStaysSilent(t *testing.T) {
	var file struct {
		Rules []string `yaml:"rule_files"`
		Every string   `yaml:"evaluation_interval"`
		Tests []unit   `yaml:"tests"`
	}
	parse(t, testsFile, &file)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, u := range file.Tests {
		for _, a := range u.Alerts {
			for _, want := range a.Want {
				fires[a.Alert] = fires[a.Alert] || want.Annotations["runbook_url"] != "" && want.Labels["severity"] != ""
			}
			if len(a.Want) == 0 {
				silent[a.Alert] = silent[a.Alert] || showsAll(t, &u, a.Alert)
			}
		}
	}
	for _, r := range alerts(t) {
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s: shown firing %v, shown silent on the metrics it looks at %v", r.Alert, fires[r.Alert], silent[r.Alert])
		}
	}
}

// showsAll reports whether a test has a series of each metric that the alert reads.
func showsAll(t *testing.T, u *unit, alert string) bool {
	t.Helper()
	all := alerts(t)
	i := slices.IndexFunc(all, func(r rule) bool { return r.Alert == alert })
	if i < 0 {
		t.Errorf("test %q is of an alert that does not exist", u.Name)
		return false
	}
	for _, sel := range selectors(t, all[i].Expr) {
		if !slices.ContainsFunc(u.Series, func(s struct {
			Series string `yaml:"series"`
			Values string `yaml:"values"`
		},
		) bool {
			return strings.HasPrefix(s.Series, sel.Name+"{")
		}) {
			return false
		}
	}
	return true
}

// An alert reads only metrics and labels that the daemon exports, and states its severity, what to do, and where to find more.
func TestAlertsMatchTheDaemon(t *testing.T) {
	known := metricsTable(t)
	seen := map[string]bool{}
	for _, r := range alerts(t) {
		if seen[r.Alert] {
			t.Errorf("%s is there twice", r.Alert)
		}
		seen[r.Alert] = true
		for _, wrong := range known.check(t, r.Expr) {
			t.Errorf("%s: %s", r.Alert, wrong)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || len(r.Labels) != 1 {
			t.Errorf("%s has labels %v", r.Alert, r.Labels)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" ||
			r.Annotations["runbook_url"] != runbookAt+strings.ToLower(r.Alert) {
			t.Errorf("%s has annotations %v", r.Alert, r.Annotations)
		}
	}
}

// codes returns the codes that a constant of these files names.
func codes(t *testing.T, constant string, files ...string) []string {
	t.Helper()
	of := regexp.MustCompile(`(?m)^\s*` + constant + `\w+(?: +\w+)? += "([a-z-]+)"`)
	var all []string
	for _, f := range files {
		for _, m := range of.FindAllStringSubmatch(read(t, f), -1) {
			all = append(all, m[1])
		}
	}
	if len(all) < 3 {
		t.Fatalf("found no codes in %v", files)
	}
	return all
}

// Everything that fsck can find raises one alert, and what cuts a VM off raises the one that says so. No alert waits for a code that
// does not exist.
func TestEveryFindingRaisesOneAlert(t *testing.T) {
	findings := codes(t, "[Ff]ind", "../../control/plan/check.go", "../../daemon/leftovers.go")
	valid := map[string][]string{
		"sluice_finding_info":       findings,
		"sluice_vm_reason_info":     codes(t, "Code", "../../model/reasons.go"),
		"sluice_nic_bandwidth_info": codes(t, "Bandwidth", "../../model/bandwidth.go"),
	}
	by := map[string]string{}
	for _, r := range alerts(t) {
		for _, sel := range selectors(t, r.Expr) {
			for _, m := range sel.LabelMatchers {
				if m.Name != "code" {
					continue
				}
				for code := range strings.SplitSeq(m.Value, "|") {
					if !slices.Contains(valid[sel.Name], code) {
						t.Errorf("%s: %s has no code %q", r.Alert, sel.Name, code)
					}
					if sel.Name == "sluice_finding_info" {
						if by[code] != "" {
							t.Errorf("%s raises both %s and %s", code, by[code], r.Alert)
						}
						by[code] = r.Alert
					}
				}
			}
		}
	}
	for _, code := range findings {
		if by[code] == "" || plan.CutsOff(code) != (by[code] == "SluiceVMCutOff") {
			t.Errorf("finding %s raises %q", code, cmp.Or(by[code], "no alert"))
		}
	}
}

// The runbook has a section on each alert and on nothing else: what it means and what to do, where to see more and when to ignore it if
// there is something to say, in this order.
func TestRunbook(t *testing.T) {
	_, text, _ := strings.Cut(read(t, runbook), "\n## ")
	sections := map[string]string{}
	for s := range strings.SplitSeq(text, "\n## ") {
		name, body, _ := strings.Cut(s, "\n")
		sections[name] = "\n" + body
	}
	for _, r := range alerts(t) {
		body, ok := sections[r.Alert]
		delete(sections, r.Alert)
		if !ok {
			t.Errorf("%s has no section on %s", runbook, r.Alert)
			continue
		}
		if !sectionShape.MatchString(body) {
			t.Errorf("%s, %s: it should be Means, See (or none), Do, Ignore (or none):%s", runbook, r.Alert, body)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		t.Errorf("%s has a section on %s, which is not an alert", runbook, name)
	}
}

var sectionShape = regexp.MustCompile(`^\n\*\*Means\.\*\* [^*]+(\n[^*]+)*(\n\*\*See\.\*\* [^\n]+)?\n\*\*Do\.\*\* [^\n]+(\n\*\*Ignore\.\*\* [^\n]+)?\n*$`)

// selectors returns the series that an expression reads.
func selectors(t *testing.T, expr string) []*parser.VectorSelector {
	t.Helper()
	e, err := parser.ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	var all []*parser.VectorSelector
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			all = append(all, v)
		}
		return nil
	})
	return all
}
