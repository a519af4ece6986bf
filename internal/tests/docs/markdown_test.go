// Package docs checks the commands in README.md and docs/*.md. It runs commands of sluice against a demo where possible, checks others
// against the command tree or the program, and lists the rest with a reason. It has tests only.
package docs_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

const root = "../../.."

// snippet is a code block of a page, or inline code.
type snippet struct {
	page   string
	line   int
	lang   string // language of a fenced block
	text   string
	inline bool
}

func (s *snippet) where() string { return fmt.Sprintf("%s:%d", s.page, s.line) }

// pages returns the pages for users, relative to the repository's root.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{"README.md", "SECURITY.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "docs/examples/*.md", "docs/papers/*.md", "docs/appendix/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, f := range files {
			rel, err := filepath.Rel(root, f)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, rel)
		}
	}
	return all
}

// snippets returns all code of a page.
func snippets(t *testing.T, page string) []snippet {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, page)) //nolint:gosec // a file of the repository
	if err != nil {
		t.Fatal(err)
	}
	return parsePage(page, data)
}

func parsePage(page string, data []byte) []snippet {
	var all []snippet
	add := func(at int, s snippet) {
		s.page, s.line = page, 1+bytes.Count(data[:at], []byte("\n"))
		all = append(all, s)
	}
	_ = ast.Walk(goldmark.DefaultParser().Parse(text.NewReader(data)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.CodeSpan:
			if first, ok := n.FirstChild().(*ast.Text); ok {
				add(first.Segment.Start, snippet{text: spanText(n, data), inline: true})
			}
			return ast.WalkSkipChildren, nil
		case *ast.FencedCodeBlock:
			if n.Lines().Len() > 0 {
				add(n.Lines().At(0).Start, snippet{lang: string(n.Language(data)), text: string(n.Lines().Value(data))})
			}
		case *ast.CodeBlock:
			add(n.Lines().At(0).Start, snippet{text: string(n.Lines().Value(data))})
		}
		return ast.WalkContinue, nil
	})
	return all
}

func spanText(n *ast.CodeSpan, data []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(data))
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// prompt precedes a command whose output is also shown. Commands after node# are typed in a guest.
var prompt = regexp.MustCompile(`(?m)^(?:\$|host#|node#) `)

// shellLangs are the languages of blocks with commands.
var shellLangs = map[string]bool{"sh": true, "bash": true, "shell": true, "console": true}

// otherThanShell lists the other kinds of blocks, by how they begin.
var otherThanShell = map[string]*regexp.Regexp{
	"XML":           regexp.MustCompile(`^<`),
	"JSON":          regexp.MustCompile(`^\{`),
	"YAML":          regexp.MustCompile(`^(- )?[\w.]+:( |\n)`),
	"agent's file":  regexp.MustCompile(`^\[agent\]`),
	"a unit":        regexp.MustCompile(`^\[(Unit|Service)\]`),
	"PromQL":        regexp.MustCompile(`^(rate|sluice_\w+)[({]`),
	"a drawing":     regexp.MustCompile(`[┌└│─]`),
	"a message":     regexp.MustCompile(`^(asked \d|plugin type=|initServers|\[default/)`),
	"usage":         regexp.MustCompile(`^sluice[^\n]* (\[flags\]|\[command\])\n$`),
	"flags":         regexp.MustCompile(`^ *(-\w, )?--\w`),
	"a table":       regexp.MustCompile(`^([A-Z-]+ +){3}|^[A-Z]+ {2,}\w|^ *\d+  |^/\w+/\S+  +|^PF  |^VF \d`),
	"other's words": regexp.MustCompile(`^type: '|^real  `),
}

// hidden returns a command in a block of another kind, "" if there is none.
func (s *snippet) hidden() string {
	for line := range strings.Lines(s.text) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(line, f[0]+" ") && isProgram(f[0]) &&
			!otherThanShell["usage"].MatchString(line) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// commands returns the commands of a snippet as a script; ok is false if it has none. kind then names the kind of the block, "" if it
// is unknown.
func (s *snippet) commands() (script, kind string, ok bool) {
	if s.lang != "" && !shellLangs[s.lang] {
		return "", s.lang, false
	}
	if prompt.MatchString(s.text) {
		var b strings.Builder
		goesOn := false
		for line := range strings.Lines(s.text) {
			if goesOn || prompt.MatchString(line) {
				b.WriteString(prompt.ReplaceAllString(line, ""))
				goesOn = strings.HasSuffix(line, "\\\n")
			}
		}
		return b.String(), "shell", true
	}
	if s.lang == "" {
		for kind, begins := range otherThanShell {
			if begins.MatchString(s.text) {
				return "", kind, false
			}
		}
		word, _, _ := strings.Cut(s.text, "\n")
		if f := strings.Fields(word); len(f) == 0 || !isProgram(f[0]) {
			return "", "", false
		}
	}
	return s.text, "shell", true
}
