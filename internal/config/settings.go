package config

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/internal/model"
)

// Setting is one key of the configuration in effect.
type Setting struct {
	Key    string `json:"key"` // its path, for example "pfs[0].name"
	Value  string `json:"value"`
	Source string `json:"source"` // file, line and column, or "default"

	line string // its line of YAML; of a Setting without key that of a mapping or list
}

// sourceDefault is the Source of a key that no file has.
const sourceDefault = "default"

// Settings lists the keys in effect with their values and where these come from. Keys that no file has and that have no default are
// left out.
func (c *Config) Settings() []Setting {
	var out []Setting
	c.section(&out, reflect.ValueOf(*c), "", "", "")
	return out
}

// section adds the keys of a mapping. first begins its first line, and indent all others.
func (c *Config) section(out *[]Setting, v reflect.Value, path, first, indent string) {
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("yaml")
		if name == "" {
			continue
		}
		key, f, before := dotted(path, name), v.Field(i), len(*out)
		line := first + name + ":"
		switch {
		case isList(f.Type()):
			if f.Len() > 0 {
				*out = append(*out, Setting{line: line})
			}
			for k := range f.Len() {
				c.section(out, f.Index(k), fmt.Sprintf("%s[%d]", key, k), indent+"  - ", indent+"    ")
			}
		case isSection(f.Type()):
			*out = append(*out, Setting{line: line})
			c.section(out, f, key, indent+"  ", indent+"  ")
			if len(*out) == before+1 { // nothing in it
				*out = (*out)[:before]
			}
		case f.Type() == reflect.TypeFor[model.Params]():
			c.params(out, f.Interface().(model.Params), key, line, indent)
		default:
			if _, set := c.pos[key]; set || !f.IsZero() || f.Kind() == reflect.Bool && path != "" && !strings.HasSuffix(path, "]") {
				text, quoted := scalarText(f)
				*out = append(*out, Setting{key, text, c.source(key), line + " " + quoted})
			}
		}
		if len(*out) > before {
			first = indent
		}
	}
}

func (c *Config) params(out *[]Setting, p model.Params, key, line, indent string) {
	if len(p) > 0 {
		*out = append(*out, Setting{line: line})
	}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		at, text := dotted(key, name), strconv.FormatFloat(p[name], 'g', -1, 64)
		*out = append(*out, Setting{at, text, c.source(at), indent + "  " + yamlText(name) + ": " + text})
	}
}

func (c *Config) source(key string) string {
	if pos, set := c.pos[key]; set {
		return pos.String()
	}
	return sourceDefault
}

// scalarText formats a value as the decoder reads it, and quotes it for YAML if necessary.
func scalarText(v reflect.Value) (text, quoted string) {
	switch x := v.Interface().(type) {
	case time.Duration:
		text = x.String()
		for _, zero := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(text, zero) {
				text = text[:len(text)-2]
			}
		}
		return text, text
	case fmt.Stringer: // rates and sets: never mistaken for something else
		text = x.String()
		return text, cmp.Or(text, `""`)
	}
	if v.Kind() == reflect.String {
		return v.String(), yamlText(v.String())
	}
	text = fmt.Sprint(v.Interface())
	return text, text
}

var plainWord = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9/_.-]*$`)

// yamlText quotes text that YAML could take for something else.
func yamlText(s string) string {
	if plainWord.MatchString(s) && !slices.Contains([]string{"true", "false", "null"}, strings.ToLower(s)) {
		return s
	}
	return strconv.Quote(s)
}

// WriteSettings writes settings as a sluice.yaml with a comment on the source of each.
func WriteSettings(w io.Writer, list []Setting) {
	const most = 60 // columns before the comments, unless a line is longer
	wide := 0
	for _, s := range list {
		if n := utf8.RuneCountInString(s.line); n <= most {
			wide = max(wide, n)
		}
	}
	for _, s := range list {
		if s.Key == "" {
			fmt.Fprintln(w, s.line)
		} else {
			fmt.Fprintf(w, "%-*s  # %s\n", wide, s.line, s.Source)
		}
	}
}
