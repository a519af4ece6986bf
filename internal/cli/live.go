package cli

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"sluice/internal/model"
)

// Terminal control, as every terminal of the last decades understands it.
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	clearAll   = "\x1b[2J"
	home       = "\x1b[H"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// frameTime is the least time between two drawings: views may come much faster.
const frameTime = 100 * time.Millisecond

// Live shows Views as they come, until the channel is closed: redrawn in place on a
// terminal, else as lines that can be logged, both below the line head. It takes every View at once, so that it
// never holds up who sends them for longer than one drawing.
func Live(w io.Writer, isTerminal bool, head string, views <-chan *model.View) {
	if isTerminal {
		liveScreen(w, head, views)
		return
	}
	_, _ = fmt.Fprintln(w, head)
	var l liveLines
	for v := range views {
		for _, text := range l.next(v) {
			_, _ = fmt.Fprintln(w, text)
		}
	}
}

func liveScreen(w io.Writer, head string, views <-chan *model.View) {
	_, _ = io.WriteString(w, hideCursor+clearAll)
	defer func() { _, _ = io.WriteString(w, showCursor) }()
	var drawn time.Time
	var last *model.View
	for v := range views {
		if last = v; time.Since(drawn) >= frameTime {
			draw(w, head, v)
			drawn = time.Now()
			last = nil
		}
	}
	if last != nil {
		draw(w, head, last)
	}
}

// draw writes one frame at once, so that it does not flicker.
func draw(w io.Writer, head string, v *model.View) {
	columns, rows := size(w)
	b := bufio.NewWriterSize(w, 1<<16)
	_, _ = b.WriteString(home)
	_, _ = b.WriteString(style(dim, clip(head, columns)) + clearLine + "\r\n")
	for _, text := range frame(v, columns, rows-1) {
		_, _ = b.WriteString(text + clearLine + "\r\n")
	}
	_, _ = b.WriteString(clearBelow)
	_ = b.Flush() // a terminal that is gone ends the program by its own signal
}
