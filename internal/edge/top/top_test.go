package top

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"
	"github.com/google/go-cmp/cmp"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/edge/edgetest"
	"sluice/internal/model"
)

// viewed is a state on a terminal of a given size.
type viewed struct {
	*state
	t      *testing.T
	screen tcell.SimulationScreen
	shown  *canvas
}

func newViewed(t *testing.T, d *Data, columns, rows int) *viewed {
	t.Helper()
	v := &viewed{state: newState("Sluice"), t: t, screen: tcell.NewSimulationScreen("UTF-8")}
	if err := v.screen.Init(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.screen.Fini)
	v.screen.SetSize(columns, rows)
	v.look(d)
	return v
}

// lines returns the lines on the screen without trailing spaces.
func (v *viewed) lines() []string {
	v.t.Helper()
	c := newCanvas(v.screen.Size())
	v.draw(c)
	c.show(v.screen, v.shown)
	v.shown = c
	cells, columns, rows := v.screen.GetContents()
	out := make([]string, rows)
	for y := range rows {
		var b strings.Builder
		for x := 0; x < columns; x++ {
			b.WriteString(string(cells[y*columns+x].Runes))
			if c.cells[y*columns+x].text != "" && x+1 < columns && c.cells[y*columns+x+1].text == "" {
				x++ // the right half of a character two columns wide
			}
		}
		out[y] = strings.TrimRight(b.String(), " ")
	}
	return out
}

// press types keys: names of special keys in angle brackets.
func (v *viewed) press(keys ...string) {
	names := map[string]tcell.Key{
		"<up>": tcell.KeyUp, "<down>": tcell.KeyDown, "<end>": tcell.KeyEnd, "<home>": tcell.KeyHome, "<pgdn>": tcell.KeyPgDn,
		"<pgup>":  tcell.KeyPgUp,
		"<enter>": tcell.KeyEnter, "<esc>": tcell.KeyEscape, "<left>": tcell.KeyLeft, "<right>": tcell.KeyRight, "<bs>": tcell.KeyBackspace2,
		"<ctrl-c>": tcell.KeyCtrlC,
	}
	for _, k := range keys {
		if name, ok := names[k]; ok {
			v.key(tcell.NewEventKey(name, 0, tcell.ModNone))
			continue
		}
		for _, r := range k {
			v.key(tcell.NewEventKey(tcell.KeyRune, r, tcell.ModNone))
		}
	}
}

// names returns the visible VMs of the table.
func (v *viewed) names() (out []string) {
	lines := v.lines()
	i := 0
	for ; i < len(lines) && !strings.HasPrefix(lines[i], "VM "); i++ { // the head of the table
		if strings.HasPrefix(lines[i], "VM*") || strings.HasPrefix(lines[i], "VM^") {
			break
		}
	}
	for _, line := range lines[i+1 : len(lines)-1] {
		if f := strings.Fields(line); len(f) > 0 {
			out = append(out, f[0])
		}
	}
	return out
}

func sample() *Data {
	v := edgetest.View()
	d := &Data{
		Status: answer.Summary(v, "1.2.3", 2), VMs: answer.VMs(v), Bandwidth: answer.Bandwidth(v),
		Subjects: []string{"burst", "pf1"}, Problems: []string{"burst: attach failed", "    -> add a port"},
	}
	return d
}

// crowd returns a host with many VMs.
func crowd(n int) *Data {
	d := sample()
	d.VMs = nil
	for i := range n {
		d.VMs = append(d.VMs, api.VM{
			ID: fmt.Sprintf("id-%05d", i), Name: fmt.Sprintf("vm-%d", i), State: "running", Known: true, PPS: float64(i), Code: "outranked",
			Why:   fmt.Sprintf("stays on virtio: those with a VF gain more from it, the least of them vm-%d", i),
			Short: "others gain more",
		})
	}
	return d
}

func TestScreens(t *testing.T) {
	var b strings.Builder
	for _, size := range [][2]int{{80, 24}, {120, 30}, {200, 20}} {
		v := newViewed(t, sample(), size[0], size[1])
		fmt.Fprintf(&b, "== %d x %d\n%s\n", size[0], size[1], strings.Join(v.lines(), "\n"))
	}
	v := newViewed(t, sample(), 80, 24)
	v.press("?")
	fmt.Fprintf(&b, "== help\n%s\n", strings.Join(v.lines(), "\n"))
	v.press("<esc>", "p")
	fmt.Fprintf(&b, "== problems\n%s\n", strings.Join(v.lines(), "\n"))
	const file = "testdata/screens.txt"
	if os.Getenv("SLUICE_TEST_UPDATE") == "1" {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("SLUICE_TEST_UPDATE=1 rewrites it:\n%s", diff)
	}
}

// A VM that is short is red, and so is the one that takes what it lacks, which has no guarantee itself.
func TestColours(t *testing.T) {
	d := sample()
	for i := range d.VMs {
		d.VMs[i].UnderWay = ""
	}
	v := newViewed(t, d, 120, 30)
	lines := v.lines()
	for name, want := range map[string]tcell.Color{
		"db": tcell.ColorMaroon, "web-10": tcell.ColorMaroon, "batch-1": tcell.ColorDefault, "router": tcell.ColorGreen,
	} {
		y := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, name+" ") })
		cells, columns, _ := v.screen.GetContents()
		if have, _, _ := cells[y*columns].Style.Decompose(); have != want {
			t.Errorf("%s is %s, want %s", name, have, want)
		}
	}
}

// At any size nothing is drawn outside the screen, nothing panics, and every key works.
func TestEverySize(t *testing.T) {
	keys := []string{
		"<down>", "<end>", "<pgdn>", "<up>", "/", "vm", "<enter>", "<esc>", "<enter>", "<end>", "<home>", "q", "p", "?", "<esc>",
		"<right>", "<right>", "<left>", "r", "<home>",
	}
	for _, d := range []*Data{{}, sample(), crowd(1000)} {
		for _, columns := range []int{1, 10, 80, 200} {
			for _, rows := range []int{1, 6, 7, 24} {
				v := newViewed(t, d, columns, rows)
				for _, k := range keys {
					v.press(k)
					if v.page == pageVM {
						v.explained(v.vm, []string{"a sentence.", "  state         " + strings.Repeat("words ", 60)}, nil)
					}
					v.lines()
				}
			}
		}
	}
}

// A VM's name must not control the terminal or shift other columns.
func TestHostileNames(t *testing.T) {
	d := crowd(1)
	at := -1
	for name, want := range map[string]string{
		"plain": "plain", "a\x1b[2Jb\nc": "a?[2Jb?c", "\u202egnp.exe": "?gnp.exe", strings.Repeat("日本語", 6): "日本語日本語日本~",
		"日本": "日本", "\x00\x07": "??", "": "", "שלום": "שלום",
		strings.Repeat("x", 200): "xxxxxxxxxxxxxxxx~", "a\u0301b": "a\u0301b", "👩‍👩‍👧‍👧": "👩?👩?👧?👧",
	} {
		d.VMs[0].Name, d.VMs[0].VF = name, "pf0/1"
		v := newViewed(t, d, 80, 12)
		lines := v.lines()
		text := strings.Join(lines, "\n")
		if strings.ContainsAny(text, "\x1b\x07\u202e") {
			t.Errorf("%q: %q", name, text)
		}
		cells, columns, _ := v.screen.GetContents()
		row := -1
		for y, line := range lines {
			if strings.Contains(line, "others gain more") {
				row = y
			}
		}
		if row < 0 {
			t.Fatalf("%q: no row:\n%s", name, text)
		}
		if have, _, _ := strings.Cut(lines[row], " "); have != want {
			t.Errorf("%q is shown as %q, want %q", name, have, want)
		}
		x := columns
		for x > 0 && string(cells[row*columns+x-1].Runes) != "/" { // of pf0/1
			x--
		}
		if at < 0 {
			at = x
		}
		if x != at {
			t.Errorf("%q: the path is in column %d, want %d:\n%s", name, x, at, lines[row])
		}
	}
}

// Reasons are never cut off in the middle: the text shown is complete, or a part that makes sense by itself.
func TestWhyIsNeverCutOff(t *testing.T) {
	reasons := []model.Reason{
		{Code: model.CodeRank, Hold: true, Policy: "adaptive", Rank: 3, Slots: 58, Score: 43700, Price: 38100, Other: "x", OtherNm: "db-05"},
		{Code: model.CodeKept, Score: 40500, Price: 40400, Regret: 105000, Detail: "steady style"},
		{Code: model.CodeVeto, Detail: "no failover: add <teaming type='persistent'/>, and an alias (ua-net0), to its interface"},
		{Code: model.CodeBackoff, Detail: "plug of pf1/4 failed: the guest did not respond"},
		{Code: model.CodeEnough, Hold: true},
	}
	for _, r := range reasons {
		vm := &api.VM{Why: r.String(), Short: r.Short(), Code: string(r.Code)}
		_, whole, _ := strings.Cut(vm.Why, ": ")
		for n := range 200 {
			have := why(vm, n)
			if have == vm.Code || have == vm.Short {
				continue
			}
			rest, ok := strings.CutPrefix(whole, have)
			if !ok || len(have) > n || rest != "" && !strings.HasPrefix(rest, ", ") && !strings.HasPrefix(rest, " (") ||
				strings.Count(have, "(") != strings.Count(have, ")") {
				t.Errorf("%d columns: %q of %q", n, have, whole)
			}
		}
		if have := why(vm, 500); have != whole {
			t.Errorf("a wide column has %q, want %q", have, whole)
		}
	}
}

func TestSortAndFilter(t *testing.T) {
	d := crowd(12)
	v := newViewed(t, d, 100, 30)
	if have := v.names(); have[0] != "vm-11" || have[11] != "vm-0" {
		t.Errorf("by load: %v", have)
	}
	v.press("r")
	if have := v.names(); have[0] != "vm-0" {
		t.Errorf("by load, reversed: %v", have)
	}
	v.press("<left>", "<left>")
	if have := v.names(); have[2] != "vm-2" || have[11] != "vm-11" {
		t.Errorf("by name, as people count: %v", have)
	}
	v.press("/", "vm-1 outr")
	if have := v.names(); len(have) != 3 { // vm-1, vm-10, vm-11
		t.Errorf("filtered: %v", have)
	}
	v.press("<bs>", "<enter>", "<down>", "<down>", "<enter>")
	if v.page != pageVM || v.vm != "id-00011" {
		t.Errorf("Enter shows %s on page %d", v.vm, v.page)
	}
	v.press("<esc>", "<esc>")
	if have := v.names(); len(have) != 12 {
		t.Errorf("the filter is gone: %v", have)
	}
	v.press("/", "nothing like it")
	if text := strings.Join(v.lines(), "\n"); !strings.Contains(text, "No VM has these") {
		t.Error(text)
	}
}

// A selected VM stays selected and visible when the loads change; the first row is always the VM that sorts first.
func TestChosenStays(t *testing.T) {
	v := newViewed(t, crowd(1000), 100, 20)
	v.lines()
	v.press("<down>", "<down>", "<down>")
	if v.chosen != "id-00996" {
		t.Fatalf("chosen is %s", v.chosen)
	}
	d := crowd(1000)
	for i := range d.VMs {
		d.VMs[i].PPS = -d.VMs[i].PPS
	}
	v.look(d)
	if have := v.names(); v.rows[v.at()].ID != "id-00996" || !strings.Contains(strings.Join(have, " "), "vm-996") {
		t.Errorf("chosen is %s, in sight are %v", v.rows[v.at()].ID, have)
	}
	v.press("<home>")
	v.look(crowd(1000))
	if have := v.names(); v.rows[v.at()].Name != "vm-999" || have[0] != "vm-999" {
		t.Errorf("chosen is %s, in sight are %v", v.rows[v.at()].Name, have)
	}
	v.press("<end>")
	if have := v.names(); have[len(have)-1] != "vm-0" {
		t.Errorf("the end is %v", have)
	}
}

// If the daemon stops answering, this is reported, and the last state stays on the screen.
func TestNoNews(t *testing.T) {
	v := newViewed(t, sample(), 100, 24)
	v.err = errors.New("no daemon answers")
	text := strings.Join(v.lines(), "\n")
	if !strings.Contains(text, "No data: no daemon answers") || !strings.Contains(text, "web-2") {
		t.Error(text)
	}
	v.err = nil
	if text := strings.Join(v.lines(), "\n"); strings.Contains(text, "No data") {
		t.Error(text)
	}
}

func BenchmarkDraw(b *testing.B) {
	screen := tcell.NewSimulationScreen("UTF-8")
	if err := screen.Init(); err != nil {
		b.Fatal(err)
	}
	defer screen.Fini()
	screen.SetSize(200, 50)
	s, d := newState("Sluice"), crowd(1000)
	var shown *canvas
	for b.Loop() {
		s.look(d)
		c := newCanvas(screen.Size())
		s.draw(c)
		c.show(screen, shown)
		shown = c
	}
}
