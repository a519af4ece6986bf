package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
)

// mutant is one small change of a file.
type mutant struct {
	File       string // as given to mutants
	Line       int
	What       string // description
	start, end int    // byte range to replace
	text       string
}

// apply returns the source with the change made.
func (m mutant) apply(src []byte) []byte {
	return append(append(append([]byte(nil), src[:m.start]...), m.text...), src[m.end:]...)
}

// swaps maps each operator to its replacement.
var swaps = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
	token.SHL: token.SHR, token.SHR: token.SHL,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN, token.INC: token.DEC, token.DEC: token.INC,
	token.BREAK: token.CONTINUE, token.CONTINUE: token.BREAK,
}

// finder collects the mutants of one file.
type finder struct {
	file string
	src  []byte
	fset *token.FileSet
	out  []mutant
}

// mutants lists the possible changes to the functions of a file: replace an operator, negate a condition, remove a statement, increment
// an integer, swap true and false.
func mutants(file string, src []byte) ([]mutant, error) {
	f := &finder{file: file, src: src, fset: token.NewFileSet()}
	tree, err := parser.ParseFile(f.fset, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range tree.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			ast.Inspect(fn.Body, func(n ast.Node) bool { f.node(n); return true })
		}
	}
	return f.out, nil
}

func (f *finder) offset(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *finder) text(n ast.Node) string {
	return string(f.src[f.offset(n.Pos()):f.offset(n.End())])
}

func (f *finder) add(start, end token.Pos, text, what string, args ...any) {
	f.out = append(f.out, mutant{
		File: f.file, Line: f.fset.Position(start).Line, What: fmt.Sprintf(what, args...),
		start: f.offset(start), end: f.offset(end), text: text,
	})
}

func (f *finder) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		f.swap(n.OpPos, n.Op, f.text(n))
	case *ast.IfStmt:
		f.add(n.Cond.Pos(), n.Cond.End(), "!("+f.text(n.Cond)+")", "if %s: turned round", f.text(n.Cond))
	case *ast.IncDecStmt:
		f.swap(n.TokPos, n.Tok, f.text(n))
		f.drop(n)
	case *ast.BranchStmt:
		if n.Label == nil {
			f.swap(n.TokPos, n.Tok, f.text(n))
		}
	case *ast.ExprStmt, *ast.SendStmt:
		f.drop(n)
	case *ast.DeferStmt, *ast.GoStmt:
		f.drop(n)
	case *ast.AssignStmt:
		f.assign(n)
	case *ast.BasicLit:
		if v, err := strconv.Atoi(n.Value); err == nil && n.Kind == token.INT {
			f.add(n.Pos(), n.End(), strconv.Itoa(v+1), "%d: one more", v)
		}
	case *ast.Ident:
		switch n.Name {
		case "true":
			f.add(n.Pos(), n.End(), "false", "true: false")
		case "false":
			f.add(n.Pos(), n.End(), "true", "false: true")
		}
	}
}

func (f *finder) swap(at token.Pos, op token.Token, in string) {
	if to, ok := swaps[op]; ok {
		f.add(at, at+token.Pos(len(op.String())), to.String(), "%s: %s for %s", in, to, op)
	}
}

func (f *finder) drop(n ast.Node) { f.add(n.Pos(), n.End(), "", "%s: left out", f.text(n)) }

// assign removes an assignment, and assigns what it read to blanks so that the file still compiles.
func (f *finder) assign(n *ast.AssignStmt) {
	switch n.Tok {
	case token.DEFINE:
		return
	case token.ASSIGN:
		blanks := ""
		for i := range n.Lhs {
			if i > 0 {
				blanks += ", "
			}
			blanks += "_"
		}
		if text := f.text(n); text[:min(len(text), len(blanks)+2)] != blanks+" =" {
			f.add(n.Lhs[0].Pos(), n.TokPos, blanks+" ", "%s: left out", text)
		}
	default:
		f.swap(n.TokPos, n.Tok, f.text(n))
		f.add(n.Pos(), n.End(), "_ = "+f.text(n.Rhs[0]), "%s: left out", f.text(n))
	}
}
