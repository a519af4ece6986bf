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

// The columns of the two CSV formats. Which one a file is, its header tells.
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
	bits bool // the Bitbrains columns
	in   *bounded
	line int // that the last row began in
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

// header finds the columns, in any order.
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
	for i, name := range rec {
		name = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")))
		line, col := c.r.FieldPos(i)
		if _, twice := c.col[name]; twice {
			return &Error{File: c.file, Line: line, Col: col, Text: fmt.Sprintf("column %q twice", name), Remedy: "keep one of them"}
		}
		c.col[name] = i
	}
	_, c.bits = c.col["rx_kbytes_s"]
	need, known := plainColumns[:3], plainColumns
	if c.bits {
		c.set.Report.Format, need, known = "Bitbrains CSV", []string{"time_s", "vm", "rx_kbytes_s", "tx_kbytes_s"}, bitbrainsColumns
	}
	for i, name := range rec {
		if name = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))); !slices.Contains(known, name) {
			line, col := c.r.FieldPos(i)
			return &Error{File: c.file, Line: line, Col: col, Text: fmt.Sprintf("unknown column %q", name), Remedy: "choose one of " +
				strings.Join(known, ", ")}
		}
	}
	for _, name := range need {
		if _, has := c.col[name]; !has {
			return &Error{File: c.file, Line: 1, Col: 1, Text: fmt.Sprintf("the first line names no column %q", name), Remedy: "it must name " +
				strings.Join(need, ", ")}
		}
	}
	_, c.set.hasBytes = c.col["bytes_s"]
	_, c.set.hasCPU = c.col["cpu_pct"]
	c.set.hasBytes = c.set.hasBytes || c.bits
	return nil
}

// noHeader complains about a first line that cannot be one of names.
func (c *csvReader) noHeader(rec []string) error {
	for i, name := range rec {
		name = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
		line, col := c.r.FieldPos(i)
		if strings.ContainsAny(name, ";\t") {
			return &Error{
				File: c.file, Line: line, Col: col, Text: "the columns are not separated by commas",
				Remedy: "write commas instead of semicolons or tabs, and points in numbers",
			}
		}
		if _, err := strconv.ParseFloat(name, 64); err == nil || name == "" && len(rec) == 1 {
			return &Error{
				File: c.file, Line: line, Col: col,
				Text:   fmt.Sprintf("the first line holds %q where it must name the columns", short(name)),
				Remedy: "put a line such as time_s,vm,pps before the rows",
			}
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
		if err != nil && !errors.Is(err, strconv.ErrRange) { // out of range reads as infinite: absurd
			line, col := c.r.FieldPos(i)
			bad = &Error{
				File: c.file, Line: line, Col: col, Text: fmt.Sprintf("%s: %q is not a number", name, short(rec[i])),
				Remedy: "write a number such as 1500 or 0.5",
			}
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
		line, col := c.r.FieldPos(c.col["vm"])
		return &Error{File: c.file, Line: line, Col: col, Text: "the row names no VM", Remedy: "fill in the vm column"}
	}
	line, _ := c.r.FieldPos(0)
	c.line = line
	if err := c.add(r, func() string { return "line " + strconv.Itoa(line) }); err != nil {
		return &Error{File: c.file, Line: line, Col: 1, Text: err.Error()}
	}
	return nil
}

// syntax gives the library's complaint our form.
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

// short keeps a complaint readable when the value is not.
func short(s string) string {
	if len(s) <= 40 {
		return s
	}
	return strings.ToValidUTF8(s[:40], "") + "..."
}
