package monitoring_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// dashboards are the files, each with its rows.
var dashboards = map[string][]string{
	"sluice":       {"Host", "Who holds a VF", "Load by path", "Moves", "Guarantees", "Limits", "Troubles"},
	"sluice-fleet": {"Fleet", "Room", "Ledger"},
}

func dashboardFile(uid string) string { return "../../../packaging/grafana/" + uid + ".json" }

// eachDashboard tests all of them.
func eachDashboard(t *testing.T, test func(t *testing.T, uid string)) {
	for uid := range dashboards {
		t.Run(uid, func(t *testing.T) { test(t, uid) })
	}
}

type dashboard struct {
	UID        string  `json:"uid"`
	Schema     int     `json:"schemaVersion"`
	Panels     []panel `json:"panels"`
	Templating struct {
		List []struct {
			Name       string  `json:"name"`
			Type       string  `json:"type"`
			Definition string  `json:"definition"`
			Source     *source `json:"datasource"`
		} `json:"list"`
	} `json:"templating"`
	Annotations struct {
		List []struct {
			Expr string `json:"expr"`
		} `json:"list"`
	} `json:"annotations"`
}

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type panel struct {
	ID          int     `json:"id"`
	Type        string  `json:"type"`
	Title       string  `json:"title"`
	Description string  `json:"description"`
	Source      *source `json:"datasource"`
	At          struct {
		X, Y, W, H int
	} `json:"gridPos"`
	Targets []struct {
		Ref    string  `json:"refId"`
		Expr   string  `json:"expr"`
		Legend string  `json:"legendFormat"`
		Source *source `json:"datasource"`
		Format string  `json:"format"`
	} `json:"targets"`
	Field struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

func loadDashboard(t *testing.T, uid string) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, dashboardFile(uid))), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// query replaces Grafana's own variables by something that Prometheus can parse.
func query(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*", "$node", ".*", "$domain", ".*").Replace(expr)
}

// The dashboard reads only metrics and labels that the daemon exports, for the selected hosts.
func TestDashboardMatchesTheDaemon(t *testing.T) { eachDashboard(t, dashboardMatchesTheDaemon) }

func dashboardMatchesTheDaemon(t *testing.T, uid string) {
	known := metricsTable(t)
	known["ALERTS"] = []string{"alertname", "alertstate", "severity"} // from Prometheus itself
	d := loadDashboard(t, uid)
	check := func(where, expr string) {
		for _, wrong := range known.check(t, query(expr)) {
			t.Errorf("%s: %s", where, wrong)
		}
		for _, s := range selectors(t, query(strings.NewReplacer("$instance", "chosen", "$node", "chosen").Replace(expr))) {
			if !slices.ContainsFunc(s.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == "instance" && m.Value == "chosen" }) {
				t.Errorf("%s: %s is read of all hosts", where, s.Name)
			}
		}
	}
	for i := range d.Panels {
		p := &d.Panels[i]
		for _, target := range p.Targets {
			check(p.Title, target.Expr)
			have := result(t, known, query(target.Expr))
			for _, m := range regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`).FindAllStringSubmatch(target.Legend, -1) {
				if !slices.Contains(have, m[1]) {
					t.Errorf("%s: the legend names label %s, and there are %v", p.Title, m[1], have)
				}
			}
			if (target.Legend == "") != (target.Format == "table") {
				t.Errorf("%s: legend %q of a %s", p.Title, target.Legend, p.Type)
			}
		}
	}
	for _, a := range d.Annotations.List {
		if a.Expr != "" {
			check("annotations", a.Expr)
		}
	}
}

// The queries use exactly the defined variables, which take their values from existing metrics and labels.
func TestDashboardVariables(t *testing.T) { eachDashboard(t, dashboardVariables) }

func dashboardVariables(t *testing.T, uid string) {
	known := metricsTable(t)
	d := loadDashboard(t, uid)
	values := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
		if v.Type == "datasource" {
			continue
		}
		m := values.FindStringSubmatch(v.Definition)
		if v.Type != "query" || m == nil {
			t.Errorf("variable %s: type %s, %q", v.Name, v.Type, v.Definition)
			continue
		}
		for _, wrong := range known.check(t, query(m[1])) {
			t.Errorf("variable %s: %s", v.Name, wrong)
		}
		if of := selectors(t, query(m[1]))[0].Name; !known.has(of, m[2]) {
			t.Errorf("variable %s: %s has no label %s", v.Name, of, m[2])
		}
	}
	text := read(t, dashboardFile(uid))
	for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(text, -1) {
		if !slices.Contains(names, m[1]) && !strings.HasPrefix(m[1], "__") {
			t.Errorf("$%s is not a variable", m[1])
		}
	}
	for _, name := range names {
		if !strings.Contains(text, "$"+name) && !strings.Contains(text, "${"+name+"}") {
			t.Errorf("nothing uses $%s", name)
		}
	}
}

// Grafana can load the dashboard as it is: no plugins, no fixed data source, no overlapping panels.
func TestDashboardCanBeLoaded(t *testing.T) { eachDashboard(t, dashboardCanBeLoaded) }

func dashboardCanBeLoaded(t *testing.T, uid string) {
	d := loadDashboard(t, uid)
	core := []string{"row", "stat", "timeseries", "state-timeline", "table"}
	wanted := slices.Clone(dashboards[uid])
	if d.Schema < 38 || d.UID != uid {
		t.Errorf("schema %d, uid %s", d.Schema, d.UID)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for i := range d.Panels {
		p := &d.Panels[i]
		if ids[p.ID] || p.Title == "" || !slices.Contains(core, p.Type) {
			t.Errorf("panel %d %q of type %s", p.ID, p.Title, p.Type)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			wanted = slices.DeleteFunc(wanted, func(s string) bool { return s == p.Title })
		} else if len(p.Targets) == 0 || p.Description == "" || p.Field.Defaults.Unit == "" && p.Type != "state-timeline" {
			t.Errorf("%s lacks a query, a description or a unit", p.Title)
		}
		for x := p.At.X; x < p.At.X+p.At.W; x++ {
			for y := p.At.Y; y < p.At.Y+p.At.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies over %q or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			for _, s := range []*source{p.Source, target.Source} {
				if s == nil || s.UID != "${datasource}" || s.Type != "prometheus" {
					t.Errorf("%s asks data source %v", p.Title, s)
				}
			}
			if refs[target.Ref] {
				t.Errorf("%s has query %s twice", p.Title, target.Ref)
			}
			refs[target.Ref] = true
		}
	}
	if len(wanted) > 0 {
		t.Errorf("there is nothing on %v", wanted)
	}
}

// result returns the labels of an expression's result.
func result(t *testing.T, known labelsOf, expr string) []string {
	t.Helper()
	e, err := parser.ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return resultOf(known, e)
}

func resultOf(known labelsOf, e parser.Expr) []string {
	switch e := e.(type) {
	case *parser.AggregateExpr:
		if e.Op == parser.TOPK {
			return resultOf(known, e.Expr)
		}
		return e.Grouping
	case *parser.BinaryExpr:
		if left := resultOf(known, e.LHS); left != nil {
			return left
		}
		return resultOf(known, e.RHS)
	case *parser.Call:
		for _, arg := range e.Args {
			if labels := resultOf(known, arg); labels != nil {
				return labels
			}
		}
	case *parser.ParenExpr:
		return resultOf(known, e.Expr)
	case *parser.MatrixSelector:
		return resultOf(known, e.VectorSelector)
	case *parser.VectorSelector:
		return append([]string{"instance", "job"}, known[e.Name]...)
	}
	return nil
}
