package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// redraw goes to the upper left corner of an empty terminal.
const redraw = "\x1b[H\x1b[2J"

// IsTerminal says whether w is a terminal a person sits at.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil && os.Getenv("TERM") != "dumb"
}
