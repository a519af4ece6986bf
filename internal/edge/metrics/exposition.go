package metrics

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/model"
)

// emitter collects the samples of one scrape, as lines of the text format.
type emitter map[*metric][]string

// send drops NaN and infinity: an absent series is clearer than NaN.
func (e emitter) send(m *metric, value float64, labels ...string) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	e.line(m, m.name+labelText(m.labels, labels), value)
}

func (e emitter) line(m *metric, series string, value float64) {
	e[m] = append(e[m], series+" "+strconv.FormatFloat(value, 'g', -1, 64)+"\n")
}

func (e emitter) bool(m *metric, value bool, labels ...string) {
	n := 0.0
	if value {
		n = 1
	}
	e.send(m, n, labels...)
}

// tri omits unknown values.
func (e emitter) tri(m *metric, value model.Tri, labels ...string) {
	if value != model.Unknown {
		e.bool(m, value == model.Yes, labels...)
	}
}

func (e emitter) sum(m *metric, n uint64, total time.Duration) {
	e.line(m, m.name+"_sum", total.Seconds())
	e.line(m, m.name+"_count", float64(n))
}

// text returns all samples, sorted by metric name and then by series.
func (e emitter) text() []byte {
	var b bytes.Buffer
	for _, m := range slices.SortedFunc(slices.Values(all), func(a, b *metric) int { return strings.Compare(a.name, b.name) }) {
		lines := e[m]
		if len(lines) == 0 {
			continue
		}
		if m.kind != "summary" {
			slices.Sort(lines)
			lines = slices.CompactFunc(lines, sameSeries)
		}
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s", m.name, m.help, m.name, m.kind, strings.Join(lines, ""))
	}
	return b.Bytes()
}

// sameSeries detects duplicate series, which would make Prometheus reject the scrape: two objects may have the same name
// and labels.
func sameSeries(a, b string) bool {
	return a[:strings.LastIndexByte(a, ' ')] == b[:strings.LastIndexByte(b, ' ')]
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// labelText formats labels sorted by name; values are escaped because they come from outside.
func labelText(names, values []string) string {
	if len(names) != len(values) {
		panic(fmt.Sprintf("labels %v with values %q", names, values)) // a programming error
	}
	pairs := make([]string, len(names))
	for i, name := range names {
		pairs[i] = name + `="` + labelEscapes.Replace(strings.ToValidUTF8(values[i], "\uFFFD")) + `"`
	}
	if len(pairs) == 0 {
		return ""
	}
	slices.Sort(pairs)
	return "{" + strings.Join(pairs, ",") + "}"
}
