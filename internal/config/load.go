package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sluice/internal/base/input"
	"sluice/internal/model"
)

// Document is one file of the configuration, already in memory.
type Document struct {
	Name string // what errors call it
	Data []byte
}

// Known names what other packages define and the configuration may mention.
type Known struct {
	// Policies maps every placement policy to its parameters. nil: any policy and any
	// parameter pass.
	Policies map[string][]model.Param
	// Rounds says which policies heed interval. nil: all.
	Rounds func(policy string) bool
	// Interval is the time between a policy's rounds where the configuration does not say. nil: one for all.
	Interval func(policy string) time.Duration
	// Packets says which policies go by packets/s, so that worth.cpu counts. nil: all.
	Packets func(policy string) bool
	// Allocators are the bandwidth allocators by name. nil: any name passes.
	Allocators []string
}

// Load reads the file and, in name order, the fragments conf.d/*.yaml beside it. The
// error joins all complaints; Errors takes them apart. On an error there is no Config:
// a running daemon keeps the one it has.
func Load(path string, known Known) (*Config, error) {
	docs, errs := documents(path)
	return parse(docs, known, errs)
}

// Socket is api.socket of the file and its fragments, for who only looks for the daemon. That runs on whatever became
// of its files since it read them: nothing else of them is judged, and where none tells the socket it is the default.
func Socket(path string) string {
	docs, _ := documents(path)
	c, _ := decode(docs, nil)
	if !filepath.IsAbs(c.API.Socket) {
		return Default().API.Socket
	}
	return c.API.Socket
}

// documents reads the file and its fragments.
func documents(path string) ([]Document, []*Error) {
	names, errs := fileNames(path)
	var docs []Document
	for _, name := range names {
		data, err := readFile(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		docs = append(docs, Document{Name: name, Data: data})
	}
	return docs, errs
}

// Parse builds a Config from documents in memory, merged in the order given.
func Parse(docs []Document, known Known) (*Config, error) {
	return parse(docs, known, nil)
}

func parse(docs []Document, known Known, errs []*Error) (*Config, error) {
	c, d := decode(docs, errs)
	check(c, known, d)
	if len(d.errs) > 0 {
		return nil, join(d.errs, c.files)
	}
	return c, nil
}

// decode fills a Config with what the documents say; the decoder has the complaints.
func decode(docs []Document, errs []*Error) (*Config, *decoder) {
	c := Default()
	d := &decoder{pos: c.pos, bad: map[string]bool{}, errs: errs}
	for _, doc := range docs {
		c.files = append(c.files, doc.Name)
		d.document(doc, c)
	}
	return c, d
}

// fileNames lists the main file and its fragments. A fragment with the other common
// ending would be passed over in silence: that is an error.
func fileNames(path string) ([]string, []*Error) {
	dir := filepath.Join(filepath.Dir(path), "conf.d")
	entries, err := os.ReadDir(dir)
	names := []string{path}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return names, []*Error{fileError(dir, err, "make it readable for root or remove it")}
	}
	var errs []*Error
	for _, e := range entries { // ReadDir sorts by name
		name := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir() || strings.HasPrefix(e.Name(), "."):
		case filepath.Ext(name) == ".yaml":
			names = append(names, name)
		case filepath.Ext(name) == ".yml":
			errs = append(errs, &Error{Pos: Pos{File: name}, Text: "fragments end in .yaml", Remedy: "rename it"})
		}
	}
	return names, errs
}

// maxFile and maxLines bound a file; a hand-written one has a few kilobytes. The YAML
// parser takes time in the square of the lines in places.
const (
	maxFile  = 256 << 10
	maxLines = 10000
)

func readFile(name string) ([]byte, *Error) {
	data, err := input.Read(name, maxFile)
	switch {
	case errors.Is(err, input.ErrTooLarge):
		return nil, tooLarge(name)
	case err != nil:
		return nil, fileError(name, err, "pass another file with --config, or start from the commented example that the package installs: /usr/share/doc/sluice/sluice.yaml")
	}
	return data, nil
}

// tooLarge complains about a file past the bounds.
func tooLarge(name string) *Error {
	text := fmt.Sprintf("larger than %d KiB or %d lines", maxFile>>10, maxLines)
	return &Error{Pos: Pos{File: name}, Text: text, Remedy: "use patterns instead of one rule a VM, or split it into conf.d"}
}

// fileError strips the path that the operating system's error repeats.
func fileError(name string, err error, remedy string) *Error {
	text := err.Error()
	var p *os.PathError
	if errors.As(err, &p) {
		text = p.Op + ": " + p.Err.Error()
	}
	return &Error{Pos: Pos{File: name}, Text: text, Remedy: remedy, cause: err}
}
