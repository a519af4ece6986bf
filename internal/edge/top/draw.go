package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"

	"sluice/api/v1"
	"sluice/internal/model"
)

// draw draws the whole screen.
func (s *state) draw(c *canvas) {
	y := s.head(c)
	switch body := c.rows - 1; s.page {
	case pageList:
		s.table(c, y, body)
	case pageVM:
		lines := s.lines
		if lines == nil {
			lines = []string{"..."}
		}
		s.text(c, y, body, lines)
	case pageProblems:
		s.text(c, y, body, s.data.Problems)
	case pageHelp:
		s.text(c, y, body, help)
	}
	s.foot(c, c.rows-1)
}

// head draws the overview of the host and returns the line below it.
func (s *state) head(c *canvas) int {
	columns := c.columns
	d := &s.data.Status
	y := 0
	line := func(look tcell.Style, text string) {
		c.put(0, y, columns, look, text)
		y++
	}
	mode := d.Mode + " mode"
	if d.Drain {
		mode = "draining"
	}
	c.fill(0, bold)
	c.right(columns-8, 0, 8, bold, clock(d.Observed))
	c.put(0, 0, columns-9, bold, strings.Join([]string{s.title, mode, "policy " + d.Policy}, "  "))
	y++
	line(plain, parts(columns, fmt.Sprintf("VMs %d, %d with a VF", d.VMs.Total, d.VMs.Holding),
		fmt.Sprintf("VFs %d of %d held", d.VFs.Held, d.VFs.Total),
		fmt.Sprintf("%s packets/s, %.0f %% on VFs", model.SI(d.Load.PPS), 100*d.Load.VFShare),
		fmt.Sprintf("%d VFs free, %d foreign", d.VFs.Free-d.VFs.Unusable, d.VFs.Foreign)))
	s.links(c, y)
	y++
	line(plain, parts(columns, fmt.Sprintf("Moves %d under way, %d waiting", d.Moves.Active, d.Moves.Pending),
		fmt.Sprintf("%d failed in 1 h", d.Moves.FailedHour),
		meanText(d.Moves.Plugs, "plug", d.Moves.PlugMean), meanText(d.Moves.Unplugs, "unplug", d.Moves.UnplugMean),
		model.Plural(int(d.Moves.Repairs), "repair"))) //nolint:gosec // a count of repairs
	switch {
	case s.err != nil:
		line(red, "No data: "+s.err.Error())
	case d.Problems+d.Findings > 0:
		line(red, subjects(d, s.data.Subjects, columns))
	default:
		line(plain, "No problems, no findings")
	}
	return y
}

// parts joins as many of the texts as fit, in order.
func parts(columns int, list ...string) string {
	text := list[0]
	for _, more := range list[1:] {
		if len(text)+len(more)+len("   ") > columns {
			break
		}
		text += "   " + more
	}
	return text
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.TimeOnly)
}

func meanText(n uint64, what string, mean float64) string {
	text := model.Plural(int(n), what) //nolint:gosec // a count of moves
	if n > 0 {
		text += fmt.Sprintf(" (%.0f ms)", 1000*mean)
	}
	return text
}

// subjects lists the subjects of problems, as many as fit.
func subjects(d *api.Status, names []string, columns int) string {
	text := model.Plural(d.Problems, "problem")
	if d.Findings > 0 {
		text += ", " + model.Plural(d.Findings, "finding") + " (sluice fsck)"
	}
	end := "   p lists them"
	for i, name := range names {
		more := map[bool]string{true: ": ", false: ", "}[i == 0] + name
		if len(text)+len(more)+len(end)+len(", ...") > columns {
			text += ", ..."
			break
		}
		text += more
	}
	return text + end
}

// links draws the use of each PF's VFs and link, as many as fit.
func (s *state) links(c *canvas, y int) {
	columns := c.columns
	sent := map[string]*api.Link{}
	for i := range s.data.Bandwidth.Links {
		sent[s.data.Bandwidth.Links[i].PF] = &s.data.Bandwidth.Links[i]
	}
	pfs := slices.Clone(s.data.Status.PFs)
	rank := func(pf *api.PFStatus) int { // problems must be visible on every screen
		if l := sent[pf.Name]; !pf.LinkUp || l != nil && l.Overcommitted {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(pfs, func(a, b api.PFStatus) int { return cmp.Compare(rank(&a), rank(&b)) })
	x := 0
	for i := range pfs {
		pf := &pfs[i]
		text, look := fmt.Sprintf("%s %d/%d VFs", pf.Name, pf.VFs.Held, pf.VFs.Total), plain
		l := sent[pf.Name]
		switch {
		case !pf.LinkUp:
			text, look = text+" LINK DOWN", red
		case l != nil:
			text += fmt.Sprintf(" %s of %sbit", model.SIDigits(l.Sent, 2), model.SIDigits(l.Carries.Bits, 2))
			if l.Overcommitted {
				text, look = text+" OVERCOMMITTED", yellow
			}
		}
		if x > 0 && x+len(text) > columns-4 {
			c.put(x, y, 3, plain, "...")
			return
		}
		x += c.put(x, y, columns, look, text) + 3
	}
}

// table draws the table of VMs.
func (s *state) table(c *canvas, y, end int) {
	columns := c.columns
	shown, widths := layout(columns)
	s.heads(c, y, shown, widths)
	s.height = max(0, end-y-1)
	s.keepVisible()
	for i := s.first; i < min(len(s.rows), s.first+s.height); i++ {
		y++
		s.row(c, y, s.rows[i], i == s.at(), shown, widths)
	}
	if len(s.rows) == 0 && s.height > 0 {
		text := "There are no VMs."
		if s.filter != "" {
			text = "No VM has these words in its name, path, state, class, network or reason; Esc clears the filter."
		}
		c.put(0, y+1, columns, plain, text)
	}
}

// The width of the name column grows with the screen.
const (
	widestName = 36
	gap        = 2
)

// layout returns the columns that fit, and their widths.
func layout(width int) (shown []int, widths []int) {
	left := width
	for i := range columns {
		if columns[i].least > width {
			continue
		}
		shown, widths = append(shown, i), append(widths, columns[i].width)
		left -= columns[i].width + gap
	}
	extra := max(0, min(widestName-columns[0].width, left-model.ShortReason))
	widths[0] += extra
	widths[len(widths)-1] = max(0, left+gap-extra)
	return shown, widths
}

func (s *state) heads(c *canvas, y int, shown, widths []int) {
	x := 0
	c.fill(y, plain.Reverse(true))
	for k, i := range shown {
		look, text := plain.Reverse(true), columns[i].head
		if i == s.order {
			look, text = look.Bold(true), text+map[bool]string{true: "^", false: "*"}[s.reverse]
		}
		if columns[i].right {
			c.right(x, y, widths[k]+1, look, text+strings.Repeat(" ", map[bool]int{true: 0, false: 1}[i == s.order]))
		} else {
			c.put(x, y, widths[k]+1, look, text)
		}
		x += widths[k] + gap
	}
}

func (s *state) row(c *canvas, y int, vm *api.VM, chosen bool, shown, widths []int) {
	look := plain
	switch {
	case vm.UnderWay != "":
		look = yellow
	case s.shares[vm.ID].short > 0 || s.shares[vm.ID].takes > 0:
		look = red
	case vm.VF != "":
		look = green
	}
	if chosen {
		look = look.Reverse(true)
		c.fill(y, look)
	}
	x := 0
	for k, i := range shown {
		text := columns[i].text(s, vm)
		switch {
		case columns[i].right:
			c.right(x, y, widths[k], look, text)
		case i == len(columns)-1:
			c.put(x, y, widths[k], look, why(vm, widths[k]))
		default:
			c.put(x, y, widths[k], look, text)
		}
		x += widths[k] + gap
	}
}

// why returns the longest form of a reason that fits completely: its sentence, shortened clause by clause from the end, or
// the few words.
func why(vm *api.VM, n int) string {
	_, text, found := strings.Cut(vm.Why, ": ")
	if !found {
		text = vm.Why
	}
	for len([]rune(text)) > n || strings.Count(text, "(") != strings.Count(text, ")") {
		i := max(strings.LastIndex(text, ", "), strings.LastIndex(text, " ("))
		if i < 0 {
			if len(vm.Short) > n || vm.Short == "" {
				return vm.Code
			}
			return vm.Short
		}
		text = text[:i]
	}
	return text
}

// name returns the name of a VM, or its UUID if the VM is gone.
func (s *state) name(vm string) string {
	if i := slices.IndexFunc(s.data.VMs, func(v api.VM) bool { return v.ID == vm }); i >= 0 {
		return s.data.VMs[i].Name
	}
	return vm
}

// text draws a page of lines below its title.
func (s *state) text(c *canvas, y, end int, lines []string) {
	columns := c.columns
	c.fill(y, plain.Reverse(true))
	var all []string
	for _, line := range lines {
		all = append(all, wrap(line, columns)...)
	}
	s.height = max(0, end-y-1)
	s.last = max(0, len(all)-s.height)
	s.scroll = min(s.scroll, s.last)
	title := map[page]string{pageVM: s.name(s.vm), pageProblems: "Problems, and what to do", pageHelp: "Keys"}[s.page]
	if s.last > 0 {
		title += fmt.Sprintf("   lines %d to %d of %d", s.scroll+1, min(len(all), s.scroll+s.height), len(all))
	}
	c.put(0, y, columns, plain.Reverse(true), title)
	for _, line := range all[s.scroll:min(len(all), s.scroll+s.height)] {
		y++
		c.put(0, y, columns, plain, line)
	}
}

func (s *state) foot(c *canvas, y int) {
	columns := c.columns
	switch {
	case s.typing:
		c.put(0, y, columns, bold, "filter: "+s.filter+"_   Enter keeps it, Esc clears it")
	case s.page == pageList:
		text := "q quit  / filter  < > sort by another column  r reverse  Enter one VM  p problems  ? help"
		if columns < len(text) {
			text = "q quit  / filter  < > sort  r reverse  Enter VM  p problems  ? help"
		}
		if s.filter != "" {
			text = fmt.Sprintf("%d of %s match %q: Esc clears the filter   %s", len(s.rows), model.Plural(len(s.data.VMs), "VM"), s.filter, text)
		}
		c.put(0, y, columns, dim, text)
	default:
		c.put(0, y, columns, dim, "Esc back  up, down, PgUp, PgDn scroll  Ctrl-C quit")
	}
}

var help = []string{
	"up, down, PgUp, PgDn, Home, End   select a VM, or scroll",
	"Enter                             details of the VM: why it has a VF or has none, and what would change that",
	"/                                 show only VMs with these words in name, path, state, class, network or reason",
	"< > (or left, right)              sort by another column, marked with * (or ^ if reversed)",
	"r                                 reverse the order",
	"p                                 the problems, and what to do about them",
	"Esc                               back, or clear the filter",
	"q, Ctrl-C                         quit",
	"",
	"PATH      the VF, or virtio; plug... and unplug... while a move is under way (yellow)",
	"SCORE     what the policy ranks by, in packets/s (pps); with fair, seconds with a VF over weight",
	"PROMISED  guaranteed rate of its NICs; SHORT: how far they are below it with more to send, in bits/s",
	"red       a VM that is short, or one that takes what it lacks: Enter says more",
	"A wider terminal shows more columns, and more of each reason.",
}
