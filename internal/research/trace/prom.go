package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// promMetrics are the counters of the common libvirt exporters, and what they count. Both directions and all interfaces of a guest are
// added up.
var promMetrics = map[string]quantity{
	"libvirt_domain_interface_stats_receive_packets_total":  packets,
	"libvirt_domain_interface_stats_transmit_packets_total": packets,
	"libvirt_domain_interface_stats_receive_bytes_total":    octets,
	"libvirt_domain_interface_stats_transmit_bytes_total":   octets,
	"libvirt_domain_info_cpu_time_seconds_total":            cpuTime,
}

// promLabels may name the domain; the first one present counts.
var promLabels = []string{"domain", "instance_name", "name", "uuid"}

type quantity int

const (
	packets quantity = iota
	octets
	cpuTime
	quantities
)

// promSeries is one entry of a range query's result.
type promSeries struct {
	Metric map[string]string `json:"metric"`
	Values []promSample      `json:"values"`
}

// promSample is a pair of seconds and a number in quotes.
type promSample struct{ at, value float64 }

// UnmarshalJSON reads [1435781430.781, "1"].
func (p *promSample) UnmarshalJSON(b []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf("%s is not a pair of time and value", short(string(b)))
	}
	var text string
	if json.Unmarshal(pair[0], &p.at) != nil || json.Unmarshal(pair[1], &text) != nil {
		return fmt.Errorf("%s is not a pair of time and quoted value", short(string(b)))
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("value %q is not a number", short(text))
	}
	p.value = v
	return nil
}

// promReader adds up the counters of each VM.
type promReader struct {
	*builder
	file  string
	in    *lineCounter
	bound *bounded
	dec   *json.Decoder
	// vms holds rates by VM and time, summed over a VM's interfaces and directions.
	vms map[string]map[float64]*[quantities]float64
	has [quantities]bool
	n   int
}

// readProm reads one or more consecutive answers of /api/v1/query_range.
func readProm(file string, in io.Reader, o Options) (*Set, error) {
	b := &bounded{in: in, what: "a series", limit: maxValue}
	lc := &lineCounter{in: b}
	p := &promReader{
		builder: newBuilder(file, "Prometheus range", o), file: file, in: lc, bound: b, dec: json.NewDecoder(lc),
		vms: map[string]map[float64]*[quantities]float64{},
	}
	for {
		p.bound.mark()
		err := p.answer()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, p.complain(err)
		}
	}
	return p.finish()
}

// answer reads one document; it takes the result list series by series.
func (p *promReader) answer() error {
	if err := p.open('{'); err != nil {
		return err
	}
	return torn(p.object(func(key string) error {
		if key == "error" {
			var text string
			if err := p.dec.Decode(&text); err != nil {
				return err
			}
			return fmt.Errorf("prometheus answered with an error: %s", short(text))
		}
		if key != "data" {
			return p.skip()
		}
		if err := p.open('{'); err != nil {
			return err
		}
		return p.object(p.data)
	}))
}

// torn turns an end in the middle of an answer into a different error: the file may only end between answers.
func torn(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (p *promReader) data(key string) error {
	switch key {
	case "resultType":
		var kind string
		if err := p.dec.Decode(&kind); err != nil {
			return err
		}
		if kind != "matrix" {
			return fmt.Errorf("resultType is %q, want matrix: the answer of /api/v1/query_range", short(kind))
		}
		return nil
	case "result":
		if err := p.open('['); err != nil {
			return err
		}
		for p.dec.More() {
			var s promSeries
			if err := p.dec.Decode(&s); err != nil {
				return err
			}
			p.bound.mark()
			if err := p.take(&s); err != nil {
				return err
			}
		}
		_, err := p.dec.Token()
		return err
	}
	return p.skip()
}

// object calls do for every key up to the closing brace; do reads the value.
func (p *promReader) object(do func(key string) error) error {
	for p.dec.More() {
		t, err := p.dec.Token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return fmt.Errorf("%v is not a key", t)
		}
		if err := do(key); err != nil {
			return err
		}
	}
	_, err := p.dec.Token()
	return err
}

func (p *promReader) open(want json.Delim) error {
	t, err := p.dec.Token()
	if err != nil {
		return err
	}
	if t != want {
		return fmt.Errorf("found %v instead of %v", t, want)
	}
	return nil
}

func (p *promReader) skip() error {
	var x json.RawMessage
	return p.dec.Decode(&x)
}

// take turns one counter into rates, which are taken as constant between two samples.
func (p *promReader) take(s *promSeries) error {
	q, known := promMetrics[s.Metric["__name__"]]
	vm := domain(s.Metric)
	if !known || vm == "" {
		p.set.Report.add(KindForeign, func() string { return short(s.Metric["__name__"]) })
		return nil
	}
	if p.n += len(s.Values); p.n > p.opts.MaxPoints {
		return fmt.Errorf("more than %d samples; query a shorter range or a longer step", p.opts.MaxPoints)
	}
	p.has[q] = true
	if p.vms[vm] == nil {
		if len(p.vms) >= maxVMs {
			return fmt.Errorf("more than %d domains", maxVMs)
		}
		p.vms[vm] = map[float64]*[quantities]float64{}
	}
	for i := 1; i < len(s.Values); i++ {
		p.rate(vm, q, s.Values[i-1], s.Values[i], s.Metric)
	}
	return nil
}

func (p *promReader) rate(vm string, q quantity, a, b promSample, labels map[string]string) {
	where := func() string {
		return fmt.Sprintf("%s of %s at %.0f s", labels["__name__"], vm, b.at)
	}
	switch dt := b.at - a.at; {
	case dt == 0:
		p.set.Report.add(KindDuplicate, where)
	case !(dt > 0):
		p.set.Report.add(KindOrder, where)
	case math.IsNaN(a.value) || math.IsNaN(b.value) || math.IsInf(a.value, 0) || math.IsInf(b.value, 0) || a.value < 0:
		p.set.Report.add(KindAbsurd, where)
	case b.value < a.value:
		p.set.Report.add(KindReset, where)
	default:
		at := p.vms[vm][a.at]
		if at == nil {
			at = &[quantities]float64{}
			p.vms[vm][a.at] = at
		}
		at[q] += (b.value - a.value) / dt
	}
}

func domain(labels map[string]string) string {
	for _, l := range promLabels {
		if labels[l] != "" {
			return labels[l]
		}
	}
	return ""
}

// finish hands the sums to the builder, VM by VM in order of time.
func (p *promReader) finish() (*Set, error) {
	p.set.hasBytes, p.set.hasCPU = p.has[octets], p.has[cpuTime]
	if !p.has[packets] && !p.has[octets] {
		return nil, &Error{
			File: p.file, Text: "holds no counters of libvirt interfaces",
			Remedy: "query libvirt_domain_interface_stats_receive_packets_total and the others listed in docs/sim.md",
		}
	}
	for _, vm := range slices.SortedFunc(maps.Keys(p.vms), compareNames) {
		for _, at := range slices.Sorted(maps.Keys(p.vms[vm])) {
			x := p.vms[vm][at]
			r := row{time: at, vm: vm, pps: x[packets], bytes: x[octets], cpu: x[cpuTime]}
			if !p.has[packets] {
				r.pps = r.bytes / p.opts.PacketSize
			}
			if err := p.add(r, func() string { return fmt.Sprintf("%s at %.0f s", vm, at) }); err != nil {
				return nil, &Error{File: p.file, Text: err.Error()}
			}
		}
		delete(p.vms, vm)
	}
	return p.done()
}

// complain adds the place where decoding stopped.
func (p *promReader) complain(err error) error {
	line, col := p.in.place(p.dec.InputOffset())
	text := err.Error()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		text = "ends in the middle"
	}
	return &Error{
		File: p.file, Line: line, Col: col, Text: strings.TrimPrefix(text, "json: "),
		Remedy: "save the answer of Prometheus's /api/v1/query_range unchanged", cause: err,
	}
}

// lineCounter remembers where lines begin, for errors.
type lineCounter struct {
	in    io.Reader
	read  int64
	lines []int64 // offsets after each newline
}

// maxLines bounds what lineCounter remembers; later places are columns of the last line remembered.
const maxLines = 1 << 20

// Read implements io.Reader.
func (l *lineCounter) Read(b []byte) (int, error) {
	n, err := l.in.Read(b)
	for i := 0; i < n && len(l.lines) < maxLines; i++ {
		if b[i] == '\n' {
			l.lines = append(l.lines, l.read+int64(i)+1)
		}
	}
	l.read += int64(n)
	return n, err
}

func (l *lineCounter) place(offset int64) (line, col int) {
	i, _ := slices.BinarySearch(l.lines, offset+1)
	start := int64(0)
	if i > 0 {
		start = l.lines[i-1]
	}
	return i + 1, int(offset-start) + 1
}
