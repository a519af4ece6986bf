package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// The columns of the two CSV formats. The header tells which one a file has.
var (
	plainColumns     = []string{"time_s", "vm", "pps", "bytes_s", "cpu_pct"}
	bitbrainsColumns = []string{"time_s", "vm", "cores", "cpu_pct", "rx_kbytes_s", "tx_kbytes_s"}
)

// csvReader reads either CSV format.
type csvReader struct {
	*builder
	r    *csv.Reader
	file string
	col  map[string]int
	bits bool // it has the Bitbrains columns
	in   *bounded
	line int // where the last row began
}

// readCSV reads a CSV trace to its end.
func readCSV(file string, in io.Reader, o Options) (*Set, error) {
	b := &bounded{in: in, what: "a row", limit: maxRow}
	r := csv.NewReader(b)
	r.ReuseRecord = true
	r.TrimLeadingSpace = true
	c := &csvReader{r: r, in: b, file: file, builder: newBuilder(file, "CSV", o)}
	if err := c.header(); err != nil {
		return nil, err
	}
	for {
		rec, err := r.Read()
		if err == io.EOF {
			return c.done()
		}
		if err != nil {
			return nil, c.syntax(err)
		}
		b.mark()
		if err := c.record(rec); err != nil {
			return nil, err
		}
	}
}

// header finds the columns, which may be in any order.
func (c *csvReader) header() error {
	rec, err := c.r.Read()
	if err == io.EOF {
		return &Error{File: c.file, Text: "is empty", Remedy: "begin with a line of column names such as time_s,vm,pps"}
	}
	if err != nil {
		return c.syntax(err)
	}
	c.line = 1
	if err := c.noHeader(rec); err != nil {
		return err
	}
	c.col = map[string]int{}
	names := make([]string, len(rec))
	for i, name := range rec {
		names[i] = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")))
		if _, twice := c.col[names[i]]; twice {
			return c.wrong(i, fmt.Sprintf("column %q twice", names[i]), "keep one of them")
		}
		c.col[names[i]] = i
	}
	_, c.bits = c.col["rx_kbytes_s"]
	need, known := plainColumns[:3], plainColumns
	if c.bits {
		c.set.Report.Format, need, known = "Bitbrains CSV", []string{"time_s", "vm", "rx_kbytes_s", "tx_kbytes_s"}, bitbrainsColumns
	}
	for i, name := range names {
		if !slices.Contains(known, name) {
			return c.wrong(i, fmt.Sprintf("unknown column %q", name), "choose one of "+strings.Join(known, ", "))
		}
	}
	for _, name := range need {
		if _, has := c.col[name]; !has {
			return c.wrong(0, fmt.Sprintf("the first line does not name a column %q", name), "it must name "+strings.Join(need, ", "))
		}
	}
	_, c.set.hasBytes = c.col["bytes_s"]
	_, c.set.hasCPU = c.col["cpu_pct"]
	c.set.hasBytes = c.set.hasBytes || c.bits
	return nil
}

// wrong is an error at the i-th field of the last row read.
func (c *csvReader) wrong(i int, text, remedy string) error {
	line, col := c.r.FieldPos(i)
	return &Error{File: c.file, Line: line, Col: col, Text: text, Remedy: remedy}
}

// noHeader returns an error for a first line that cannot be a list of names.
func (c *csvReader) noHeader(rec []string) error {
	for i, name := range rec {
		name = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
		if strings.ContainsAny(name, ";\t") {
			return c.wrong(i, "the columns are not separated by commas",
				"write commas instead of semicolons or tabs, and decimal points in numbers")
		}
		if _, err := strconv.ParseFloat(name, 64); err == nil || name == "" && len(rec) == 1 {
			return c.wrong(i, fmt.Sprintf("the first line holds %q where it must name the columns", short(name)),
				"put a line such as time_s,vm,pps before the rows")
		}
	}
	return nil
}

// record takes one row.
func (c *csvReader) record(rec []string) error {
	var r row
	var bad error
	num := func(name string) float64 {
		i, has := c.col[name]
		if !has || bad != nil {
			return 0
		}
		x, err := strconv.ParseFloat(strings.TrimSpace(rec[i]), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) { // out of range becomes infinite, which is absurd
			bad = c.wrong(i, fmt.Sprintf("%s: %q is not a number", name, short(rec[i])), "write a number such as 1500 or 0.5")
		}
		return x
	}
	r.time = num("time_s")
	r.vm = strings.TrimSpace(rec[c.col["vm"]])
	r.cores = num("cores")
	r.cpu = num("cpu_pct") / 100 * max(1, r.cores)
	if c.bits {
		r.bytes = 1000 * (num("rx_kbytes_s") + num("tx_kbytes_s"))
		r.pps = r.bytes / c.opts.PacketSize
	} else {
		r.pps, r.bytes = num("pps"), num("bytes_s")
	}
	if bad != nil {
		return bad
	}
	if r.vm == "" {
		return c.wrong(c.col["vm"], "the row does not name a VM", "fill in the vm column")
	}
	line, _ := c.r.FieldPos(0)
	c.line = line
	if err := c.add(r, func() string { return "line " + strconv.Itoa(line) }); err != nil {
		return &Error{File: c.file, Line: line, Col: 1, Text: err.Error()}
	}
	return nil
}

// syntax turns the library's error into an Error.
func (c *csvReader) syntax(err error) error {
	e := &Error{
		File: c.file, Text: err.Error(), Remedy: "a trace is CSV with a line of column names and one row per VM and sample",
		cause: err,
	}
	var long *tooLong
	if errors.As(err, &long) {
		e.Line, e.Col = c.line+1, 1
	}
	var p *csv.ParseError
	if errors.As(err, &p) {
		e.Line, e.Col, e.Text = p.Line, max(1, p.Column), p.Err.Error()
	}
	return e
}

// short cuts a long value for an error message.
func short(s string) string {
	if len(s) <= 40 {
		return s
	}
	return strings.ToValidUTF8(s[:40], "") + "..."
}
