package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// redraw clears the terminal and moves the cursor to the upper left corner.
const redraw = "\x1b[H\x1b[2J"

// IsTerminal reports whether w is an interactive terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil && os.Getenv("TERM") != "dumb"
}
