package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"sluice/internal/edge/client"
)

// The exit codes, as every help text lists them.
const (
	ExitOK          = 0 // done; nothing found
	ExitError       = 1 // it did not work; the message says what to do
	ExitUsage       = 2 // the command line is wrong
	ExitFindings    = 3 // doctor or fsck found something
	ExitUnreachable = 4 // no daemon answers
)

// usageError marks a mistake on the command line.
type usageError struct {
	err  error
	help string // the command whose help to read
}

func (e *usageError) Error() string {
	return fmt.Sprintf("%v; see `%s`", e.err, e.help)
}

func (e *usageError) Unwrap() error { return e.err }

// errFindings ends a command that printed what it found.
var errFindings = errors.New("findings")

// errPrinted ends a command that has said itself what is wrong.
var errPrinted = errors.New("errors printed")

// exitCode chooses the code for what a command returned.
func exitCode(err error) int {
	var usage *usageError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage):
		return ExitUsage
	case errors.Is(err, errFindings):
		return ExitFindings
	case errors.Is(err, client.ErrUnreachable):
		return ExitUnreachable
	}
	return ExitError
}

// complain prints an error, unless the command has spoken for itself.
func complain(w io.Writer, err error) {
	switch {
	case err == nil, errors.Is(err, errFindings), errors.Is(err, errPrinted):
	case errors.Is(err, context.Canceled):
		_, _ = fmt.Fprintln(w, "sluice: interrupted")
	default:
		for i, line := range strings.Split(err.Error(), "\n") {
			prefix := "sluice: "
			if i > 0 {
				prefix = ""
			}
			_, _ = fmt.Fprintln(w, prefix+printable(line)) // it may quote what others wrote
		}
	}
}
