package config

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
	"sluice/internal/tests/golden"
)

const (
	reference = "../../docs/config.md"
	restart   = "; *needs a restart*"
)

// The reference lists every key with its default and what it accepts, and says what it means.
func TestReferenceListsEveryKey(t *testing.T) {
	want := "| key | default | value | meaning |\n| --- | --- | --- | --- |\n" + table(t, meanings(t), reflect.ValueOf(*Default()), "")
	golden.Section(t, reference, "keys", want)
}

// meanings reads the meaning of each key from the reference.
func meanings(t *testing.T) map[string]string {
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.SplitN(strings.TrimSpace(line), " | ", 4); len(cells) == 4 {
			out[strings.TrimPrefix(cells[0], "| ")] = strings.TrimSuffix(strings.TrimSuffix(cells[3], " |"), restart)
		}
	}
	return out
}

// table returns one row per key of a struct.
func table(t *testing.T, meanings map[string]string, v reflect.Value, path string) string {
	var b strings.Builder
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := f.Tag.Get("yaml")
		if key == "" {
			continue
		}
		key = dotted(path, key)
		meaning := meanings["`"+key+"`"]
		if meaning == "" {
			t.Errorf("%s does not say what %s means: write it into the last column", reference, key)
		}
		if f.Tag.Get("reload") == "no" {
			meaning += restart
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", key, shown(v.Field(i), f, key), values(f), meaning)
		switch {
		case isList(f.Type):
			b.WriteString(table(t, meanings, reflect.New(f.Type.Elem()).Elem(), key+"[]"))
		case isSection(f.Type):
			b.WriteString(table(t, meanings, v.Field(i), key))
		}
	}
	return b.String()
}

// shown returns a default as users would write it.
func shown(v reflect.Value, f reflect.StructField, key string) string {
	if d := f.Tag.Get("default"); d != "" {
		return "`" + d + "`"
	}
	if strings.Contains(key, "[]") || v.Kind() == reflect.Map || isSection(v.Type()) || isList(v.Type()) {
		return ""
	}
	if d, ok := v.Interface().(time.Duration); ok {
		if d == 0 {
			return ""
		}
		return "`" + strings.TrimSuffix(strings.TrimSuffix(d.String(), "m0s")+"m", "sm") + suffix(d) + "`"
	}
	if s := fmt.Sprint(v.Interface()); s != "" {
		return "`" + s + "`"
	}
	return "`\"\"`"
}

// suffix restores the s that trimming removed from a duration in seconds.
func suffix(d time.Duration) string {
	if strings.HasSuffix(d.String(), "m0s") {
		return ""
	}
	return "s"
}

// values describes the accepted values.
func values(f reflect.StructField) string {
	switch {
	case f.Tag.Get("enum") != "":
		return strings.ReplaceAll(f.Tag.Get("enum"), "|", ", ")
	case f.Tag.Get("min") != "":
		return f.Tag.Get("min") + " to " + f.Tag.Get("max")
	case f.Type == reflect.TypeFor[Rate]():
		return "rate"
	case f.Type == reflect.TypeFor[VFSet]():
		return "indices"
	case f.Type == reflect.TypeFor[model.VLANs]():
		return "VLANs"
	case isList(f.Type):
		return "list"
	case f.Type.Kind() == reflect.Bool:
		return "true, false"
	case f.Type.Kind() == reflect.String:
		return "text"
	}
	return "keys"
}
