package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"sluice/internal/model"
)

// decoder fills a Config from the syntax trees of several files. It continues after an error, so that all errors are
// reported at once, and records the position of each key to find duplicates across files and to give later checks a line to
// point at. A key's path is its name with its parents', for example "vms[2].weight".
type decoder struct {
	file string
	pos  map[string]Pos
	bad  map[string]bool // keys with an error: their values are not checked again
	errs []*Error
}

func (d *decoder) report(pos Pos, key, text, remedy string) {
	d.bad[key] = true
	d.errs = append(d.errs, &Error{Pos: pos, Key: key, Text: text, Remedy: remedy})
}

// document decodes one file into the struct that v points to.
func (d *decoder) document(doc Document, v any) {
	d.file = doc.Name
	root, bad := syntax(doc)
	if bad != nil {
		d.errs = append(d.errs, bad)
	} else if root != nil {
		d.mapping("", root, reflect.ValueOf(v).Elem())
	}
}

// mapping decodes the keys of a struct.
func (d *decoder) mapping(path string, n ast.Node, v reflect.Value) {
	m, ok := n.(ast.MapNode)
	if !ok {
		d.kind(path, n, "a mapping", "write one 'key: value' per line")
		return
	}
	fields := fieldsOf(v.Type())
	here := map[string]Pos{}
	for it := m.MapRange(); it.Next(); {
		key, pos, ok := d.key(path, it.Key(), here)
		if !ok {
			continue
		}
		index, known := fields[key]
		if !known {
			d.report(pos, "", fmt.Sprintf("unknown key %q", model.Shorten(dotted(path, key))), Suggest(key, slices.Collect(maps.Keys(fields))))
			continue
		}
		d.value(dotted(path, key), pos, it.Value(), v.Field(index), v.Type().Field(index).Tag)
	}
}

// key reads a key and checks that this mapping has it only once.
func (d *decoder) key(path string, n ast.MapKeyNode, here map[string]Pos) (string, Pos, bool) {
	pos := place(d.file, n.GetToken())
	s, ok := n.(*ast.StringNode)
	if !ok {
		d.report(pos, path, "a key must be a plain word", "see docs/config.md for the keys")
		return "", pos, false
	}
	if first, twice := here[s.Value]; twice {
		d.report(pos, dotted(path, s.Value), "set twice, first at "+first.String(), "keep one of them")
		return "", pos, false
	}
	here[s.Value] = pos
	return s.Value, pos, true
}

// value decodes one key's value according to the type of its field.
func (d *decoder) value(path string, pos Pos, n ast.Node, v reflect.Value, tag reflect.StructTag) {
	switch {
	case isList(v.Type()):
		if _, set := d.pos[path]; !set { // files may add to a list
			d.pos[path] = pos
		}
		d.list(path, n, v)
	case isSection(v.Type()):
		if !isNull(n) {
			d.mapping(path, n, v)
		}
	case v.Type() == reflect.TypeFor[model.Params]():
		if !isNull(n) {
			d.params(path, n, v)
		}
	default:
		if d.once(path, pos) {
			d.scalar(path, n, v, tag)
		}
	}
}

// once records the position of a key and rejects the key if an earlier file has it.
func (d *decoder) once(path string, pos Pos) bool {
	if first, twice := d.pos[path]; twice {
		d.report(pos, path, "set twice, first at "+first.String(), "keep one of them: later files do not override earlier ones")
		return false
	}
	d.pos[path] = pos
	return true
}

// list appends the entries of a list of structs.
func (d *decoder) list(path string, n ast.Node, v reflect.Value) {
	if isNull(n) {
		return
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.kind(path, n, "a list", "begin every entry with '- '")
		return
	}
	for _, item := range seq.Values {
		entry := reflect.New(v.Type().Elem()).Elem()
		entryPath := fmt.Sprintf("%s[%d]", path, v.Len())
		pos := placeOf(d.file, item)
		d.pos[entryPath] = pos
		d.mapping(entryPath, item, entry)
		d.needed(entryPath, pos, entry.Type())
		v.Set(reflect.Append(v, entry))
	}
}

// needed reports the required keys that an entry lacks.
func (d *decoder) needed(path string, pos Pos, t reflect.Type) {
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		key := tag.Get("yaml")
		if _, has := d.pos[dotted(path, key)]; !has && tag.Get("need") != "" {
			d.report(pos, path, fmt.Sprintf("has no %q", key), "add it: "+tag.Get("doc"))
		}
	}
}

// params decodes the policy's parameters: arbitrary names with numeric values.
func (d *decoder) params(path string, n ast.Node, v reflect.Value) {
	m, ok := n.(ast.MapNode)
	if !ok {
		d.kind(path, n, "a mapping", "write one 'key: number' per line")
		return
	}
	if v.IsNil() {
		v.Set(reflect.ValueOf(model.Params{}))
	}
	here := map[string]Pos{}
	for it := m.MapRange(); it.Next(); {
		key, pos, ok := d.key(path, it.Key(), here)
		if !ok || !d.once(dotted(path, key), pos) {
			continue
		}
		var f float64
		d.scalar(dotted(path, key), it.Value(), reflect.ValueOf(&f).Elem(), "")
		v.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(f))
	}
}

// scalar decodes a single value.
func (d *decoder) scalar(path string, n ast.Node, v reflect.Value, tag reflect.StructTag) {
	text, quoted, ok := d.text(path, n)
	if !ok {
		return
	}
	err := set(v, text, quoted || tag.Get("enum") != "") // what is not text is not one of the words either
	if err == nil {
		err = within(v, text, tag)
	}
	if err == nil {
		return
	}
	var b *model.BadValue
	if errors.As(err, &b) {
		d.report(placeOf(d.file, n), path, b.Text, b.Remedy)
		return
	}
	d.report(placeOf(d.file, n), path, err.Error(), "")
}

// text returns a scalar as it is written, and whether it can only be text.
func (d *decoder) text(path string, n ast.Node) (text string, isText, ok bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true, true
	case *ast.LiteralNode: // a folded or literal block
		return strings.TrimSpace(n.Value.Value), true, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, false, true
	}
	if isNull(n) {
		d.report(d.pos[path], path, "has no value", "give it one or remove the key")
		return "", false, false
	}
	d.kind(path, n, "a single value", "see docs/config.md")
	return "", false, false
}

// kind reports that a value has the wrong shape.
func (d *decoder) kind(path string, n ast.Node, want, remedy string) {
	have := "a single value"
	switch n.(type) {
	case ast.MapNode:
		have = "a mapping"
	case *ast.SequenceNode:
		have = "a list"
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		have, remedy = "an anchor, alias or tag", "write the value out; sluice.yaml may contain none of these"
	}
	d.report(placeOf(d.file, n), "", fmt.Sprintf("%s must be %s, not %s", cmp.Or(path, "the file"), want, have), remedy)
}

// set converts text to the field's type.
func set(v reflect.Value, text string, isText bool) error {
	switch p := v.Addr().Interface().(type) {
	case *time.Duration:
		return assign(p, text, parseDuration)
	case *Rate:
		return assign(p, text, model.ParseRate)
	case *VFSet:
		return assign(p, text, ParseVFSet)
	case *model.VLANs:
		return assign(p, text, model.ParseVLANs)
	case *bool:
		return assign(p, text, parseBool)
	case *int:
		return assign(p, text, parseInt)
	case *float64:
		return assign(p, text, parseFloat)
	}
	if !isText {
		return model.Wrong(text, "is not text", fmt.Sprintf("put it in quotes: %q", text))
	}
	if strings.ContainsFunc(text, isControl) {
		return model.Wrong(text, "has line breaks or control characters", "write it on one line")
	}
	v.SetString(text)
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }

func assign[T any](p *T, text string, parse func(string) (T, error)) error {
	x, err := parse(text)
	if err == nil {
		*p = x
	}
	return err
}

func parseBool(s string) (bool, error) {
	if s != "true" && s != "false" {
		return false, model.Wrong(s, "is neither true nor false", "write true or false")
	}
	return s == "true", nil
}

func parseInt(s string) (int, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, model.Wrong(s, "is not a whole number", "write digits only, without a unit")
	}
	return int(n), nil
}

func parseFloat(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0, model.Wrong(s, "is not a number", "write a number such as 2 or 0.5, without a unit")
	}
	return f, nil
}

// within checks a value against the range or the words that its field's tag allows.
func within(v reflect.Value, text string, tag reflect.StructTag) error {
	if words := tag.Get("enum"); words != "" {
		return oneOf(text, strings.Split(words, "|"))
	}
	low, high := tag.Get("min"), tag.Get("max")
	if low == "" {
		return nil
	}
	x := magnitude(v)
	if x < bound(v, low) || x > bound(v, high) {
		return model.Wrong(text, "is out of range", fmt.Sprintf("write a value from %s to %s", low, high))
	}
	return nil
}

func oneOf(text string, words []string) error {
	if slices.Contains(words, text) {
		return nil
	}
	return model.Wrong(text, "is not one of "+strings.Join(words, ", "), closest(text, words, "write one of these"))
}

// magnitude returns a number or duration as a float, for comparison only.
func magnitude(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

// bound parses a limit in a tag as a value of the type it bounds.
func bound(like reflect.Value, text string) float64 {
	v := reflect.New(like.Type()).Elem()
	if err := set(v, text, false); err != nil {
		panic("config: bad limit in a field's tag: " + err.Error())
	}
	return magnitude(v)
}
