package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func read(t testing.TB, text string) *Set {
	t.Helper()
	set, err := Read("t.csv", strings.NewReader(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func points(s *Series) []Point {
	var out []Point
	for i := range len(s.at) {
		out = append(out, s.Point(i))
	}
	return out
}

func TestPlainCSV(t *testing.T) {
	set := read(t, "VM, pps,time_s,cpu_pct,bytes_s\nb,100,10,50,2000\na,1,10,0,20\nb,200,11,100,4000\n")
	if len(set.Series) != 2 || set.Series[0].VM != "a" || set.Series[1].VM != "b" {
		t.Fatalf("series %+v", set.Series)
	}
	want := []Point{{At: 0, PPS: 100, Bytes: 2000, CPU: 0.5}, {At: time.Second, PPS: 200, Bytes: 4000, CPU: 1}}
	if diff := cmp.Diff(want, points(set.Series[1])); diff != "" {
		t.Error(diff)
	}
	if set.Origin != 10 || set.Length != 2*time.Second {
		t.Errorf("origin %v, length %v", set.Origin, set.Length)
	}
	if n := set.Report.Troubles(); n != nil {
		t.Errorf("troubles in a clean file: %v", n)
	}
}

func TestBitbrainsCSV(t *testing.T) {
	text := "time_s,vm,cores,cpu_pct,rx_kbytes_s,tx_kbytes_s\n59,2,4,25,3,1\n61,10,1,0,0,0\n359,2,4,25,1.5,0.5\n"
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	set, err := Read("b.csv.gz", &zipped, Options{PacketSize: 500})
	if err != nil {
		t.Fatal(err)
	}
	if set.Series[0].VM != "2" || set.Series[1].VM != "10" {
		t.Error("VMs are not in order of number")
	}
	want := []Point{{PPS: 8, Bytes: 4000, CPU: 1}, {At: 300 * time.Second, PPS: 4, Bytes: 2000, CPU: 1}}
	if diff := cmp.Diff(want, points(set.Series[0])); diff != "" {
		t.Error(diff)
	}
}

func TestTroublesAreCountedAndHandled(t *testing.T) {
	set := read(t, strings.Join([]string{
		"time_s,vm,pps",
		"0,a,10",  // 2
		"1,a,-3",  // 3: negative
		"2,a,NaN", // 4
		"3,a,1e300",
		"1,a,11",    // 6: fine
		"1,a,12",    // 7: duplicate, counts
		"4,a,14",    // 8
		"3,a,13",    // 9: out of order
		"5,a,1e999", // 10: infinite
		"5,a,15",
		"6,a,16",
		"2,a,12.5", // 13: out of order
		"6.5,a,16.5",
		"30,a,30", // after a gap
	}, "\n"))
	s := set.Series[0]
	want := []Point{
		{0, 10, 0, 0},
		{time.Second, 12, 0, 0},
		{2 * time.Second, 12.5, 0, 0},
		{3 * time.Second, 13, 0, 0},
		{4 * time.Second, 14, 0, 0},
		{5 * time.Second, 15, 0, 0},
		{6 * time.Second, 16, 0, 0},
		{6500 * time.Millisecond, 16.5, 0, 0},
		{30 * time.Second, 30, 0, 0},
	}
	if diff := cmp.Diff(want, points(s)); diff != "" {
		t.Error(diff)
	}
	for kind, n := range map[Kind]int{KindAbsurd: 4, KindDuplicate: 1, KindOrder: 2, KindGap: 1} {
		if got := set.Report.Count(kind); got != n {
			t.Errorf("%s: %d, want %d", kind, got, n)
		}
	}
	text := set.Report.String()
	for _, place := range []string{
		"line 3: packets/s negative", "line 4: packets/s not finite", "line 7", "line 9", "VM a from 6.5s to 30s", ", ...",
	} {
		if !strings.Contains(text, place) {
			t.Errorf("the report does not mention %q:\n%s", place, text)
		}
	}
	p := Player{Series: s, Start: time.Unix(0, 0)}
	for at, want := range map[float64]float64{0: 10, 1.5: 12, 7.4: 16.5, 7.6: 0, 29: 0, 30: 30, 30.9: 30, 31.1: 0} {
		if got, _, _ := p.At(time.Unix(0, int64(at*1e9))); got != want {
			t.Errorf("at %v s it moves %v, want %v", at, got, want)
		}
	}
	if p.Known(time.Unix(20, 0)) || !p.Known(time.Unix(3, 0)) {
		t.Error("the load is unknown in the gap and nowhere else")
	}
}

func TestRowsBeforeTheFirstOneMoveTheOrigin(t *testing.T) {
	set := read(t, "time_s,vm,pps\n5,a,1\n6,a,2\n5.5,b,2\n4,b,1\n")
	if set.Origin != 4 || set.Series[0].Point(0).At != time.Second || set.Series[1].Point(0).At != 0 {
		t.Errorf("origin %v, a at %v, b at %v", set.Origin, set.Series[0].Point(0).At, set.Series[1].Point(0).At)
	}
}

func TestComplaintsNamePlaceAndRemedy(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "t.csv: is empty",
		"a,b\n":                `t.csv:1:1: unknown column "a"; choose one of time_s, vm, pps`,
		"time_s,vm,pps,mood\n": `t.csv:1:15: unknown column "mood"`,
		"0,a,100\n1,a,100\n": `t.csv:1:1: the first line holds "0" where it must name the columns; ` +
			`put a line such as time_s,vm,pps before the rows`,
		"vm-1,12.5,100\n":                      `t.csv:1:6: the first line holds "12.5" where`,
		"time_s;vm;pps\n0;a;1\n":               `t.csv:1:1: the columns are not separated by commas; write commas`,
		"0;a;1,5\n":                            `t.csv:1:1: the columns are not`,
		"time_s\tvm\tpps\n":                    `t.csv:1:1: the columns are not separated by commas`,
		"time_s,vm,vm\n":                       `t.csv:1:11: column "vm" twice`,
		"time_s,vm,bytes_s\n":                  `t.csv:1:1: the first line does not name a column "pps"`,
		"time_s,vm,pps\n0,a\n":                 "t.csv:2:1: wrong number of fields",
		"time_s,vm,pps\n0,a,1\n1,a,many\n":     `t.csv:3:5: pps: "many" is not a number; write a number`,
		"time_s,vm,pps\n0,,1\n":                "t.csv:2:3: the row does not name a VM",
		"time_s,vm,pps\n0,\"a,1\n":             "t.csv:2:",
		"time_s,vm,pps\n0,a,-1\n":              "t.csv: no usable row",
		"time_s,vm,pps\n0,a,1\n1e12,a,1\n":     "t.csv:3:1: a row is 11574074 days from the first one",
		`{"status":"error","error":"too far"}`: "t.csv:1:36: prometheus answered with an error: too far",
		`{"data":{"resultType":"vector"}}`:     "resultType is \"vector\", want matrix",
		`{"data":{"result":[`:                  "ends in the middle",
		"{}":                                   "holds no counters of libvirt interfaces",
	} {
		_, err := Read("t.csv", strings.NewReader(text), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: %T is not an *Error", text, err)
		}
	}
}

func TestBoundedMemory(t *testing.T) {
	_, err := Read("t.csv", strings.NewReader("time_s,vm,pps\n0,a,1\n1,a,1\n2,a,1\n"), Options{MaxPoints: 2})
	if err == nil || !strings.Contains(err.Error(), "t.csv:4:1: more than 2 rows") {
		t.Error(err)
	}
}

const promText = `{"status":"success","data":{"resultType":"matrix","result":[
 {"metric":{"__name__":"libvirt_domain_interface_stats_receive_packets_total","domain":"web","target_device":"vnet0"},
  "values":[[100,"0"],[110,"50"],[120,"10"],[130,"40"]]},
 {"metric":{"__name__":"libvirt_domain_interface_stats_transmit_packets_total","domain":"web","target_device":"vnet0"},
  "values":[[100,"5"],[110,"5"],[120,"105"],[130,"105"]]},
 {"metric":{"__name__":"libvirt_domain_interface_stats_receive_bytes_total","domain":"web"},"values":[[100,"0"],[110,"1000"]]}]}}
{"status":"success","data":{"resultType":"matrix","result":[
 {"metric":{"__name__":"libvirt_domain_info_cpu_time_seconds_total","domain":"web"},"values":[[100,"3"],[110,"8"],[120,"8"]]},
 {"metric":{"__name__":"up"},"values":[[100,"1"]]}]}}`

func TestPrometheusRange(t *testing.T) {
	set, err := Read("p.json", strings.NewReader(promText), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Point{
		{0, 5, 100, 0.5},
		{10 * time.Second, 10, 0, 0}, // the receive counter was reset here
		{20 * time.Second, 3, 0, 0},
	}
	if diff := cmp.Diff(want, points(set.Series[0])); diff != "" {
		t.Error(diff)
	}
	if set.Report.Count(KindReset) != 1 || set.Report.Count(KindForeign) != 1 {
		t.Error(set.Report.String())
	}
}

func TestLoadTellsKindsApart(t *testing.T) {
	dir := t.TempDir()
	csvFile := filepath.Join(dir, "x")
	if err := os.WriteFile(csvFile, []byte("time_s,vm,pps\n0,a,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(csvFile, Options{}); err != nil || IsRecording(csvFile) {
		t.Errorf("CSV: %v, recording %v", err, IsRecording(csvFile))
	}
	if _, err := Load(filepath.Join(dir, "none"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("time_s,vm,pps\n0,a,1\n1,a,2\n"))
	f.Add([]byte("time_s,vm,cores,cpu_pct,rx_kbytes_s,tx_kbytes_s\n59,2,4,25,3,1\n"))
	f.Add([]byte("vm,time_s,pps,bytes_s\n\"a\n\",3,1,2\nb,1e400,NaN,0\nb,-2,5,5\n"))
	f.Add([]byte(promText))
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<14 {
			return // long inputs say nothing new
		}
		set, err := Read("f", bytes.NewReader(data), Options{MaxPoints: 10000})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("no place in %q", err)
			}
			return
		}
		for _, s := range set.Series {
			for i := range len(s.at) {
				p := s.Point(i)
				if p.At < 0 || !(p.PPS >= 0) || !(p.Bytes >= 0) || !(p.CPU >= 0) || (i > 0 && p.At <= s.Point(i-1).At) {
					t.Fatalf("%s: point %d is %+v", s.VM, i, p)
				}
			}
		}
	})
}

// endless is a file that begins with some text and repeats one byte for ever.
type endless struct {
	begin io.Reader
	more  byte
	read  int
}

func (e *endless) Read(p []byte) (int, error) {
	n, err := e.begin.Read(p)
	if err != nil {
		n = len(p)
		for i := range p {
			p[i] = e.more
		}
	}
	e.read += n
	return n, nil
}

// An endless line, perhaps well compressed, is refused before it exhausts memory.
func TestLinesAreBounded(t *testing.T) {
	for _, c := range []struct {
		text string
		more byte
		want string
	}{
		{"time_s,vm,pps\n0,a,1\n1,a,", '1', "t.csv:3:1: a row is longer than 1 MiB"},
		{"time_s,vm,pps\n0,a,1\n1,\"", '\n', "t.csv:3:1: a row is longer than 1 MiB"},
		{"", 'a', "t.csv:1:1: a row is longer than 1 MiB"},
		{`{"data":{"resultType":"matrix","result":[` + "\n{\"metric\":{\"__name__\":\"", 'a', "t.csv:2:1: a series is longer than 64 MiB"},
		{`{"`, 'a', "a series is longer than 64 MiB"},
	} {
		in := &endless{begin: strings.NewReader(c.text), more: c.more}
		_, err := Read("t.csv", in, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.text, err, c.want)
		}
		if in.read > maxValue+1<<21 {
			t.Errorf("%q: read %d bytes", c.text, in.read)
		}
	}
}
