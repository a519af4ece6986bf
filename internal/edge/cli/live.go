package cli

import (
	"fmt"
	"io"

	"sluice/internal/model"
)

// Live prints Views as log lines, below the line head, until the channel is closed.
func Live(w io.Writer, head string, views <-chan *model.View) {
	_, _ = fmt.Fprintln(w, head)
	var l liveLines
	for v := range views {
		for _, text := range l.next(v) {
			_, _ = fmt.Fprintln(w, text)
		}
	}
}
