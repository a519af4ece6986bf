//go:build lab

package vpflab_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"sluice/lab/vpflab"
)

var (
	tableRuns = flag.Int("table-runs", 5, "runs of BenchmarkPaperTables; the paper has 5")
	tableSpan = flag.Int("table-span", 60, "seconds of each measurement of BenchmarkPaperTables; the paper has 60")
)

// quantity is a cell of the tables 2 and 3 of the paper on virtual PFs, for both of its setups.
type quantity struct {
	name          string
	unit          string
	without, with float64 // published
}

// quantities are in the order of what tableRun returns.
var quantities = []quantity{
	{"transmission (table 2)", "Mbit/s", 1635, 1919.1},
	{"reception (table 2)", "Mbit/s", 968.1, 5421.9},
	{"latency, 99th percentile (table 3)", "us", 320.2, 221.8},
}

// BenchmarkPaperTables measures what the tables 2 and 3 of the paper on virtual PFs contain (sections Performance: Throughput, Latency),
// with one flow and one CPU: UDP that a pod sends, the most that it receives while the rate is raised until it can receive no more, and
// the 99th percentile of UDP requests' round trips, between the pod and the outside machine. The paper's setup without a virtual PF is Calico,
// on a NIC assigned to the VM; ours is what Calico builds, a routed veth with iptables, on a virtio NIC with a tap. It prints a table
// with every run, whose order of setups alternates. Everything is emulated: it shows function, not speed.
func BenchmarkPaperTables(b *testing.B) {
	ctx := b.Context()
	h := hostForWays(ctx, b)
	var setups [2]*way // without, with
	all := ways()
	for i := range all {
		switch all[i].name {
		case "routed veth, iptables":
			setups[0] = &all[i]
		case "virtual VF":
			setups[1] = &all[i]
		}
	}
	var got [2][][]float64
	for b.Loop() { // -benchtime 1x
		for run := range *tableRuns {
			for i := range setups {
				i = (i + run) % 2
				x := tableRun(ctx, b, h, setups[i])
				load, err := os.ReadFile("/proc/loadavg")
				must(b, err)
				b.Logf("run %d, %s: %.4g; load of this machine: %s", run+1, setups[i].name, x, load)
				got[i] = append(got[i], x)
			}
		}
	}
	b.Log("\n" + paperTables(got[0], got[1]))
}

// tableRun returns what a pod sends, what it receives, and the 99th percentile of its round trips, as quantities lists them.
func tableRun(ctx context.Context, b *testing.B, h *vpflab.Host, w *way) []float64 {
	b.Helper()
	setUp(ctx, b, h, w)
	defer tearDown(ctx, b, h, w)
	send := flow(ctx, b, h, w, true, 0, *tableSpan)
	receive := mostReceived(ctx, b, h, w, max(1, *tableSpan/6)) // about six rates are tried
	return []float64{send, receive, latency(ctx, b, h, w)}
}

// latency returns the 99th percentile of the round trips of UDP requests, in us: the outside machine asks, one at a time, and the pod answers.
func latency(ctx context.Context, b *testing.B, h *vpflab.Host, w *way) float64 {
	b.Helper()
	const port = ":5002"
	must(b, h.GuestStart(ctx, "node", "answer", "ip netns exec pod udp answer "+w.pod+port))
	guest(ctx, b, h, "node", "until grep -q answering /run/answer.log; do sleep 0.1; done")
	text := outside(ctx, b, h, fmt.Sprintf("udp ask %s%s %d", w.pod, port, *tableSpan))
	guest(ctx, b, h, "node", "kill $(cat /run/answer.pid)")
	var answered, lost int
	var p99 float64
	if _, err := fmt.Sscanf(text, "answered %d lost %d p99 %f", &answered, &lost, &p99); err != nil {
		b.Fatalf("what asks says: %q: %v", text, err)
	}
	if answered == 0 || lost*1000 > answered {
		b.Fatalf("%d of %d requests were not answered", lost, answered+lost)
	}
	return p99
}

// paperTables returns what is published beside the mean of all runs, each of which it shows. Each run has a value for each of quantities.
func paperTables(without, with [][]float64) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%d runs of %d s each\n\n| | published | here: mean | least to most | runs |\n| --- | --- | --- | --- | --- |\n", len(with), *tableSpan)
	for i, q := range quantities {
		var x, y, ratio []float64
		for run := range with {
			x, y = append(x, without[run][i]), append(y, with[run][i])
			ratio = append(ratio, with[run][i]/without[run][i])
		}
		row(&t, q.name+", without a virtual PF, "+q.unit, q.without, x)
		row(&t, q.name+", with one, "+q.unit, q.with, y)
		row(&t, q.name+", with one / without", q.with/q.without, ratio)
	}
	return t.String()
}

func row(t *strings.Builder, name string, published float64, runs []float64) {
	var mean float64
	texts := make([]string, len(runs))
	for i, x := range runs {
		mean += x / float64(len(runs))
		texts[i] = digits(x)
	}
	fmt.Fprintf(t, "| %s | %s | %s | %s to %s | %s |\n", name, digits(published), digits(mean), digits(slices.Min(runs)), digits(slices.Max(runs)),
		strings.Join(texts, ", "))
}

// digits formats x with two decimals below 10, one above.
func digits(x float64) string {
	if x < 10 {
		return fmt.Sprintf("%.2f", x)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
}
