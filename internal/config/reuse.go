package config

import "strings"

// Other hand-written files follow the same rules as sluice.yaml: strict keys, and all errors at once, each with a position
// and a remedy.

// Decode fills v, a pointer to a struct with the tags of this package, from one document, and returns the position of each
// key. help is the page that lists the keys.
func Decode(doc Document, v any, help string) (map[string]Pos, []*Error) {
	d := &decoder{pos: map[string]Pos{}, bad: map[string]bool{}}
	d.document(doc, v)
	for _, e := range d.errs {
		e.Remedy = strings.ReplaceAll(e.Remedy, "docs/config.md", help)
		e.Remedy = strings.ReplaceAll(e.Remedy, "sluice.yaml", "this file")
	}
	return d.pos, d.errs
}

// ReadFile reads a file within the size limits of a hand-written one.
func ReadFile(name string) (Document, *Error) {
	data, err := readFile(name)
	if err != nil {
		err.Remedy = "check the path"
		return Document{}, err
	}
	return Document{Name: name, Data: data}, nil
}
