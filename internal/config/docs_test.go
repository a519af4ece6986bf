package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
	"sluice/internal/tests/golden"
)

func TestReferenceListsEveryKey(t *testing.T) {
	want := "| key | default | value | meaning |\n| --- | --- | --- | --- |\n" + table(reflect.ValueOf(*Default()), "")
	golden.Section(t, "../../docs/config.md", "keys", want)
}

// table returns one row per key of a struct.
func table(v reflect.Value, path string) string {
	var b strings.Builder
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := f.Tag.Get("yaml")
		if key == "" {
			continue
		}
		key = dotted(path, key)
		if f.Tag.Get("doc") == "" {
			panic(key + " has no doc tag")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", key, shown(v.Field(i), f, key), values(f), meaning(f))
		switch {
		case isList(f.Type):
			b.WriteString(table(reflect.New(f.Type.Elem()).Elem(), key+"[]"))
		case isSection(f.Type):
			b.WriteString(table(v.Field(i), key))
		}
	}
	return strings.ReplaceAll(b.String(), "'", "`")
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

func meaning(f reflect.StructField) string {
	if f.Tag.Get("reload") == "no" {
		return f.Tag.Get("doc") + "; *needs a restart*"
	}
	return f.Tag.Get("doc")
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
