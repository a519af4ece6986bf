package top

import (
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/uniseg"

	"sluice/internal/base/input"
)

// The styles of text. Colour is never the only indication.
var (
	plain  = tcell.StyleDefault
	bold   = plain.Bold(true)
	dim    = plain.Dim(true)
	green  = plain.Foreground(tcell.ColorGreen)
	yellow = plain.Foreground(tcell.ColorOlive)
	red    = plain.Foreground(tcell.ColorMaroon).Bold(true)
)

// canvas is the content of the screen. Text that does not fit is cut off.
type canvas struct {
	columns, rows int
	cells         []cell // by row
}

// cell is one column of a line; its text is "" if the character to its left is two columns wide.
type cell struct {
	text string
	look tcell.Style
}

func newCanvas(columns, rows int) *canvas {
	c := &canvas{columns: columns, rows: rows, cells: make([]cell, columns*rows)}
	for i := range c.cells {
		c.cells[i] = cell{" ", plain}
	}
	return c
}

// show writes the cells that differ from before to the screen; all cells if before is nil.
func (c *canvas) show(screen tcell.Screen, before *canvas) {
	same := before != nil && before.columns == c.columns && before.rows == c.rows
	for i, now := range c.cells {
		if now.text != "" && (!same || before.cells[i] != now) {
			screen.Put(i%c.columns, i/c.columns, now.text, now.look)
		}
	}
	screen.Show()
}

// put writes at most n columns of a text and returns how many it used. Text from outside is sanitized, so that it cannot
// control the terminal.
func (c *canvas) put(x, y, n int, look tcell.Style, text string) int {
	n = min(n, c.columns-x)
	if y < 0 || y >= c.rows || x < 0 || n <= 0 {
		return 0
	}
	at := x
	for g := uniseg.NewGraphemes(fit(input.Printable(text), n)); g.Next(); {
		w := min(g.Width(), 2)
		if w == 0 || at+w > x+n {
			continue
		}
		c.cells[y*c.columns+at] = cell{g.Str(), look}
		for k := range w - 1 {
			c.cells[y*c.columns+at+1+k] = cell{"", look}
		}
		at += w
	}
	return at - x
}

// right is like put, with the text right-aligned in the n columns.
func (c *canvas) right(x, y, n int, look tcell.Style, text string) {
	c.put(x+max(0, n-uniseg.StringWidth(text)), y, n, look, text)
}

// fill clears a line and sets its style.
func (c *canvas) fill(y int, look tcell.Style) {
	for x := 0; x < c.columns && y < c.rows; x++ {
		c.cells[y*c.columns+x] = cell{" ", look}
	}
}

// fit cuts a text to n columns; a tilde marks the cut.
func fit(text string, n int) string {
	if uniseg.StringWidth(text) <= n {
		return text
	}
	var b strings.Builder
	left := n - 1
	for g := uniseg.NewGraphemes(text); g.Next() && g.Width() <= left; left -= g.Width() {
		b.WriteString(g.Str())
	}
	if n > 0 {
		b.WriteByte('~')
	}
	return b.String()
}

// wrap breaks a line at spaces so that no part is wider than n columns. Continuation lines have the indentation of the line
// or of its second column.
func wrap(line string, n int) []string {
	const least = 20
	indent := len(line) - len(strings.TrimLeft(line, " "))
	if i := strings.Index(line[indent:], "  "); i > 0 { // a name, then its description
		indent += i + len(line[indent+i:]) - len(strings.TrimLeft(line[indent+i:], " "))
	}
	if n-indent < least {
		indent = 0
	}
	var out []string
	for uniseg.StringWidth(line) > n {
		cut, width := 0, 0
		for i, r := range line {
			if width += uniseg.StringWidth(string(r)); width > n {
				break
			}
			if r == ' ' && i > indent {
				cut = i
			}
		}
		if cut == 0 {
			break // a word wider than the screen
		}
		out = append(out, line[:cut])
		line = strings.Repeat(" ", indent) + strings.TrimLeft(line[cut:], " ")
	}
	return append(out, line)
}
