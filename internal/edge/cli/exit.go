package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sluice/internal/edge/client"
)

// The exit codes, as listed in every help text.
const (
	ExitOK          = 0 // success; nothing found
	ExitError       = 1 // failure; the message says what to do
	ExitUsage       = 2 // the command line is wrong
	ExitFindings    = 3 // doctor, fsck or version --check found something
	ExitUnreachable = 4 // no daemon answers
	ExitObstacle    = 5 // a pin or release is accepted, but cannot have its effect now
)

// usageError is an error in the command line.
type usageError struct {
	err  error
	help string // the command that prints the relevant help
}

func (e *usageError) Error() string {
	return fmt.Sprintf("%v; see `%s`", e.err, e.help)
}

func (e *usageError) Unwrap() error { return e.err }

// errFindings ends a command that printed its findings.
var errFindings = errors.New("findings")

// errObstacle ends a command that printed what prevents what it asked for.
var errObstacle = errors.New("accepted, but without effect now")

// errPrinted ends a command that has already printed its error.
var errPrinted = errors.New("errors printed")

// exitCode maps a command's error to the exit code.
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
	case errors.Is(err, errObstacle):
		return ExitObstacle
	}
	return ExitError
}

// printError prints an error, unless the command has already printed it.
func printError(w io.Writer, err error) {
	switch {
	case err == nil, errors.Is(err, errFindings), errors.Is(err, errObstacle), errors.Is(err, errPrinted):
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(w, "sluice: interrupted")
	default:
		fmt.Fprintln(w, "sluice: "+lines(err.Error(), 0)) // it may quote text from outside
	}
}
