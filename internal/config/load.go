package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sluice/internal/base/input"
	"sluice/internal/model"
)

// Document is one file of the configuration in memory.
type Document struct {
	Name string // the name used in errors
	Data []byte
}

// Known lists what other packages define and the configuration may refer to.
type Known struct {
	// Policies are the placement policies by name. nil: any policy and any parameter are accepted.
	Policies map[string]model.PolicyInfo
	// Allocators are the bandwidth allocators by name. nil: any name is accepted.
	Allocators map[string]model.AllocatorInfo
}

// Load reads the file and, in name order, the fragments conf.d/*.yaml beside it. The error joins everything that is wrong;
// Errors splits it. On an error no Config is returned: a running daemon keeps the one it has.
func Load(path string, known Known) (*Config, error) {
	docs, errs := documents(path)
	return parse(docs, known, errs)
}

// Socket returns api.socket of the file and its fragments, for clients that only need to find the daemon. A running daemon
// is unaffected by later changes to its files, so nothing else in them is validated, and if they do not give a usable
// socket path, the result is the default.
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

// parse builds a Config from documents, merged in the order given; errs are errors of reading them.
func parse(docs []Document, known Known, errs []*Error) (*Config, error) {
	c, d := decode(docs, errs)
	check(c, known, d)
	if len(d.errs) > 0 {
		return nil, Join(d.errs, c.files...)
	}
	return c, nil
}

// decode fills a Config from the documents; the decoder holds the errors.
func decode(docs []Document, errs []*Error) (*Config, *decoder) {
	c := Default()
	d := &decoder{pos: c.pos, bad: map[string]bool{}, errs: errs}
	for _, doc := range docs {
		c.files = append(c.files, doc.Name)
		d.document(doc, c)
	}
	return c, d
}

// fileNames lists the main file and its fragments. A fragment ending in .yml is an error, since it would otherwise be
// ignored silently.
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

// maxFile and maxLines bound a file; a hand-written one has a few kilobytes. The YAML parser is quadratic in the number of
// lines in places.
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
		return nil, fileError(name, err,
			"pass another file with --config, or start from the commented example that the package installs: /usr/share/doc/sluice/sluice.yaml")
	}
	return data, nil
}

// tooLarge returns the error for a file beyond the bounds.
func tooLarge(name string) *Error {
	text := fmt.Sprintf("larger than %d KiB or %d lines", maxFile>>10, maxLines)
	return &Error{Pos: Pos{File: name}, Text: text, Remedy: "use patterns instead of one rule per VM, or split it into conf.d"}
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
