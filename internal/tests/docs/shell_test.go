package docs_test

import (
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// call is one simple command of a script.
type call struct {
	args    []string
	comment string // that follows it
}

// calls parses a script and splits it into calls.
func calls(script string) ([]call, error) {
	file, err := syntax.NewParser(syntax.KeepComments(true), syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return nil, err
	}
	var all []call
	for _, stmt := range file.Stmts {
		comment := ""
		for _, c := range stmt.Comments {
			if c.Pos().Line() == stmt.End().Line() {
				comment = strings.TrimSpace(c.Text)
			}
		}
		syntax.Walk(stmt, func(n syntax.Node) bool {
			if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
				all = append(all, call{args: words(c.Args), comment: comment})
			}
			return true
		})
	}
	return all, nil
}

// words returns the arguments as a program gets them, with placeholders for variables.
func words(list []*syntax.Word) []string {
	env := &expand.Config{Env: expand.FuncEnviron(func(string) string { return "x" })}
	var out []string
	for _, w := range list {
		s, err := expand.Literal(env, w)
		if err != nil { // the output of other commands
			s = "x"
		}
		out = append(out, s)
	}
	for len(out) > 1 && (out[0] == "sudo" || out[0] == "env") {
		out = out[1:]
	}
	return out
}
