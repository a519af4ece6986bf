package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal says whether w is a terminal a person sits at.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil && os.Getenv("TERM") != "dumb"
}

// size of a terminal in columns and rows; a usual one where it cannot be told.
func size(w io.Writer) (columns, rows int) {
	columns, rows = 100, 30
	f, ok := w.(*os.File)
	if !ok {
		return columns, rows
	}
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || ws.Col == 0 || ws.Row == 0 {
		return columns, rows
	}
	return int(ws.Col), int(ws.Row)
}
