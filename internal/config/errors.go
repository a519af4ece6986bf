package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/model"
)

// Pos is a position in a file; line and column count from 1.
type Pos struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Col  int    `json:"column"`
}

// String formats the position as compilers do, or returns only the file if the line is unknown.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Error is one error at one position of the configuration.
type Error struct {
	Pos    Pos    `json:"pos"`
	Key    string `json:"key,omitempty"` // the key's path, for example "vms[2].weight"
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"` // what to write or do instead
	cause  error
}

// Error formats position, text and remedy on one line.
func (e *Error) Error() string {
	s := e.Pos.String() + ": "
	if e.Key != "" {
		s += e.Key + ": "
	}
	s += e.Text
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

// Unwrap returns the operating system's error, if any.
func (e *Error) Unwrap() error { return e.cause }

// Errors returns every *Error inside an error of this package, sorted by position.
func Errors(err error) []*Error {
	var one *Error
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*Error
		for _, e := range many.Unwrap() {
			all = append(all, Errors(e)...)
		}
		return all
	}
	if errors.As(err, &one) {
		return []*Error{one}
	}
	return nil
}

// Join sorts the errors by position, files in the order given, and joins them; it returns nil if there are none.
func Join(errs []*Error, files ...string) error {
	slices.SortStableFunc(errs, func(a, b *Error) int {
		return cmp.Or(
			cmp.Compare(slices.Index(files, a.Pos.File), slices.Index(files, b.Pos.File)),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Col, b.Pos.Col),
		)
	})
	list := make([]error, len(errs))
	for i, e := range errs {
		list[i] = e
	}
	return errors.Join(list...)
}

// Suggest returns the remedy for an unknown word: the closest known word, or all known words if none is close.
func Suggest(word string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	return closest(word, known, "choose one of "+strings.Join(slices.Sorted(slices.Values(known)), ", "))
}

// closest returns the remedy for a misspelt word, or another remedy if no known word is close.
func closest(word string, known []string, other string) string {
	if best := model.Near(word, known, 1); len(best) > 0 {
		return fmt.Sprintf("did you mean %q?", best[0])
	}
	return other
}
