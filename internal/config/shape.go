package config

import (
	"reflect"

	"github.com/goccy/go-yaml/ast"

	"sluice/internal/model"
)

// fieldsOf maps the keys of a struct to its fields.
func fieldsOf(t reflect.Type) map[string]int {
	m := map[string]int{}
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "" {
			m[key] = i
		}
	}
	return m
}

// isList reports whether a field is a list of entries with keys of their own.
func isList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t != reflect.TypeFor[model.VLANs]()
}

// isSection reports whether a field is a mapping with known keys.
func isSection(t reflect.Type) bool { return t.Kind() == reflect.Struct && len(fieldsOf(t)) > 0 }

func isNull(n ast.Node) bool {
	_, null := n.(*ast.NullNode)
	return n == nil || null
}

// placeOf returns where a value begins: a mapping's own token is its first colon.
func placeOf(file string, n ast.Node) Pos {
	switch n := n.(type) {
	case nil:
		return Pos{File: file}
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return place(file, n.Values[0].Key.GetToken())
		}
	case *ast.MappingValueNode:
		return place(file, n.Key.GetToken())
	}
	return place(file, n.GetToken())
}

func dotted(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
