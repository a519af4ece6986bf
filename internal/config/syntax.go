package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxDepth bounds nesting: the parser recurses once per level. The documented keys have four levels.
const maxDepth = 16

// syntax parses one file into its mapping; root is nil if the file holds only comments.
func syntax(doc Document) (root ast.Node, bad *Error) {
	defer func() {
		// The parser is third-party code. A panic in it must not crash the daemon on a reload.
		if p := recover(); p != nil {
			bad = &Error{Pos: Pos{File: doc.Name}, Text: fmt.Sprintf("the YAML parser failed: %v", p), Remedy: "simplify the file"}
		}
	}()
	text, bad := decoded(doc)
	if bad != nil {
		return nil, bad
	}
	tokens := lexer.Tokenize(text)
	if tk := tooDeep(tokens); tk != nil {
		return nil, &Error{
			Pos: place(doc.Name, tk), Text: fmt.Sprintf("nested more than %d levels deep", maxDepth),
			Remedy: "see docs/config.md for the keys",
		}
	}
	// The decoder finds duplicates: it reports all of them with both positions.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxError(doc.Name, err)
	}
	return onlyDocument(doc.Name, file)
}

// decoded returns a file's text without the byte order mark that some editors put before UTF-8.
func decoded(doc Document) (string, *Error) {
	data := bytes.TrimPrefix(doc.Data, []byte("\ufeff"))
	switch {
	case len(data) > maxFile || bytes.Count(data, []byte("\n")) > maxLines:
		return "", tooLarge(doc.Name)
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}), bytes.HasPrefix(data, []byte{0xfe, 0xff}), bytes.IndexByte(data, 0) >= 0:
		return "", &Error{
			Pos: Pos{File: doc.Name}, Text: "is not UTF-8 text: it is UTF-16, or not text at all",
			Remedy: "save it as UTF-8, for example with `iconv -f UTF-16 -t UTF-8`",
		}
	}
	return string(data), nil
}

// onlyDocument returns the body of the file's single document.
func onlyDocument(name string, file *ast.File) (ast.Node, *Error) {
	var root ast.Node
	for _, d := range file.Docs {
		switch {
		case d.Body == nil || isComment(d.Body):
		case root != nil:
			return nil, &Error{Pos: place(name, d.Body.GetToken()), Text: "a second document begins here", Remedy: "remove the '---' before it"}
		default:
			root = d.Body
		}
	}
	return root, nil
}

func isComment(n ast.Node) bool {
	_, ok := n.(*ast.CommentGroupNode)
	return ok
}

// syntaxError keeps the parser's position and first sentence, without its excerpt of the source.
func syntaxError(name string, err error) *Error {
	e := &Error{Pos: Pos{File: name}, Text: err.Error(), Remedy: "check indentation, colons and quotes around here"}
	var y yaml.Error
	if errors.As(err, &y) {
		e.Text = y.GetMessage()
		e.Pos = place(name, y.GetToken())
	}
	e.Text, _, _ = strings.Cut(e.Text, "\n")
	if strings.Contains(e.Text, "'\t'") {
		e.Text, e.Remedy = "a tab is used where YAML requires spaces", "indent with spaces"
	}
	return e
}

// place returns the position of a token.
func place(name string, tk *token.Token) Pos {
	if tk == nil || tk.Position == nil {
		return Pos{File: name}
	}
	return Pos{File: name, Line: max(tk.Position.Line, 1), Col: max(tk.Position.Column, 1)}
}

// tooDeep returns the token at which nesting passes maxDepth, or nil.
func tooDeep(tokens token.Tokens) *token.Token {
	flow, line, entries := 0, -1, 0
	var indents []int
	for _, tk := range tokens {
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
			entries++
		}
		if tk.Position.Line != line {
			line, entries = tk.Position.Line, 0
			indents = nested(indents, tk.Position.Column)
		}
		if flow > maxDepth || entries > maxDepth || len(indents) > maxDepth {
			return tk
		}
	}
	return nil
}

// nested maintains the columns at which the enclosing lines begin.
func nested(indents []int, col int) []int {
	for len(indents) > 0 && indents[len(indents)-1] >= col {
		indents = indents[:len(indents)-1]
	}
	return append(indents, col)
}
