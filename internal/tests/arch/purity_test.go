package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pure packages make decisions. They must not access the outside world, the current time or randomness. The files named here are the
// exceptions of each package, which are not checked.
var pure = map[string][]string{
	"base/reconcile":    nil,
	"model":             nil,
	"control/placement": nil,
	"control/plan":      nil,
	"control/claim":     nil,
	"control/doctor":    nil,
	"host/qualify":      nil,
	"control/executor":  nil,
	"control/bandwidth": nil,
	"channel":           {"reader.go", "server.go", "client.go"},
	"control/vpf":       nil,
	"control/loop":      nil,
	"control/events":    nil,
}

// harmless lists what pure code may import of the standard library and, if not all of a package is harmless, what it may use of it (+)
// or may not (-).
var harmless = map[string]string{
	"bytes": "", "cmp": "", "container/heap": "", "encoding": "", "encoding/hex": "", "encoding/json": "", "errors": "", "hash/fnv": "",
	"iter": "", "maps": "", "math": "", "math/big": "", "math/bits": "", "net/netip": "", "path": "", "regexp": "", "slices": "",
	"sort": "", "strconv": "", "strings": "", "unicode": "", "unicode/utf8": "",
	"time":    "-Now Since Until After AfterFunc NewTimer NewTicker Tick Sleep Local LoadLocation",
	"net":     "+HardwareAddr ParseMAC",
	"fmt":     "-Print Printf Println Scan Scanf Scanln",
	"context": "+Context",
}

func TestPurePackagesStayPure(t *testing.T) {
	touch(t)
	floor, err := os.ReadDir("../../control")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range floor {
		if _, listed := pure["control/"+e.Name()]; e.IsDir() && !listed {
			t.Errorf("control/%s is not on the list of pure packages", e.Name())
		}
	}
	for name, edges := range pure {
		dir := filepath.Join("../..", filepath.FromSlash(name))
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		sources := map[string]string{}
		for _, e := range entries {
			if e.IsDir() || !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			sources[e.Name()] = string(text)
		}
		for _, f := range edges {
			if sources[f] == "" {
				t.Errorf("%s has no file %s: take it off the list of edges", name, f)
			}
		}
		for _, fault := range impurities(t, sources, edges) {
			t.Errorf("%s/%s; it must not touch the world: take what it needs as an argument", name, fault)
		}
	}
}

// TestPurePackagesStayPure must find each of these.
func TestImpuritiesAreFound(t *testing.T) {
	for want, source := range map[string]string{
		"": `import ("time"; "context"); type T interface{ M(context.Context) }; var table = []int{1}; ` +
			`func f(t time.Time) time.Time { table := table[:]; table = nil; _ = table; return t.Add(time.Second) }`,
		"time.Now":                 `import "time"; func f() time.Time { return time.Now() }`,
		"time.Since":               `import clock "time"; var f = clock.Since`,
		"time.Sleep":               `import "time"; func f() { time.Sleep(1) }`,
		"time.NewTimer":            `import "time"; func f() { <-time.NewTimer(1).C }`,
		"fmt.Println":              `import "fmt"; func f() { fmt.Println() }`,
		"context.Background":       `import "context"; func f() { _ = context.Background() }`,
		"imports os":               `import "os"; func f() { _ = os.Args }`,
		"imports math/rand/v2":     `import "math/rand/v2"; func f() int { return rand.Int() }`,
		"imports time":             `import . "time"; func f() Time { return Now() }`,
		"imports unsafe":           `import _ "unsafe"`,
		"starts a goroutine":       `func f() { go f() }`,
		"uses a channel":           `var c chan int`,
		"waits":                    `func f() { select {} }`,
		"changes the variable n":   `var n int; func f() { n++ }`,
		"changes the variable m":   `var m map[int]int; func f() { m[1] = 2 }`,
		"changes the variable s":   `var s struct{ a []struct{ b int } }; func f() { s.a[1].b += 2 }`,
		"changes the variable d":   `var d map[int]int; func f() { delete(d, 1) }`,
		"changes the variable a":   `var a int; func f() *int { return &a }`,
		"changes the variable x":   `var x *int; func f() { *x, _ = 1, 2 }`,
		"changes the variable k":   `var k int; func f() { for k = range 3 { } }`,
		"calls edge, which is of ": `func f() { edge() }`,
		"calls Do, which is of":    `func f(e Edge) { e.Do() }`,
	} {
		edge := "package p\nimport \"os\"\ntype Edge struct{}\nfunc (Edge) Do() {}\nfunc edge() { os.Exit(1) }"
		got := strings.Join(impurities(t, map[string]string{"a.go": "package p\n" + source, "edge.go": edge}, []string{"edge.go"}), "\n")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s\n found: %q, want %q", source, got, want)
		}
	}
}

// impurities lists what is not pure in a package's files, other than its exceptions. It does not inspect imported packages. It resolves
// names, so that shadowing does not mislead it.
func impurities(t *testing.T, sources map[string]string, edges []string) []string {
	t.Helper()
	p := &purity{fset: token.NewFileSet(), edges: edges, info: types.Info{Uses: map[*ast.Ident]types.Object{}}}
	var files []*ast.File
	for name, text := range sources {
		f, err := parser.ParseFile(p.fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	conf := types.Config{Importer: hollow{}, Error: func(error) {}} // errors are expected, since imported packages appear empty
	p.pkg, _ = conf.Check("p", p.fset, files, &p.info)
	for _, f := range files {
		if !slices.Contains(edges, p.fset.Position(f.Pos()).Filename) {
			p.file(f)
		}
	}
	slices.Sort(p.faults)
	return p.faults
}

// hollow imports packages without their contents.
type hollow struct{}

func (hollow) Import(p string) (*types.Package, error) {
	pkg := types.NewPackage(p, strings.TrimSuffix(path.Base(p), "/v2"))
	if path.Base(p) == "v2" {
		pkg = types.NewPackage(p, path.Base(path.Dir(p)))
	}
	pkg.MarkComplete()
	return pkg, nil
}

// purity collects the violations of a package.
type purity struct {
	fset   *token.FileSet
	pkg    *types.Package
	info   types.Info
	edges  []string
	faults []string
}

func (p *purity) fault(n ast.Node, format string, args ...any) {
	pos := p.fset.Position(n.Pos())
	p.faults = append(p.faults, fmt.Sprintf("%s:%d ", pos.Filename, pos.Line)+fmt.Sprintf(format, args...))
}

func (p *purity) file(f *ast.File) {
	for _, s := range f.Imports {
		name, _ := strconv.Unquote(s.Path.Value)
		_, known := harmless[name]
		if (!known && !strings.HasPrefix(name, "sluice/")) || (s.Name != nil && s.Name.Name == ".") {
			p.fault(s, "imports %s", name)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool { p.node(n); return true })
}

func (p *purity) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.GoStmt:
		p.fault(n, "starts a goroutine")
	case *ast.ChanType:
		p.fault(n, "uses a channel")
	case *ast.SelectStmt:
		p.fault(n, "waits")
	case *ast.SelectorExpr:
		p.selector(n)
	case *ast.Ident:
		p.foreign(n)
	case *ast.AssignStmt:
		for _, left := range n.Lhs {
			p.change(left)
		}
	case *ast.IncDecStmt:
		p.change(n.X)
	case *ast.RangeStmt:
		p.change(n.Key)
		p.change(n.Value)
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			p.change(n.X)
		}
	case *ast.CallExpr:
		if id, ok := n.Fun.(*ast.Ident); ok && slices.Contains([]string{"delete", "clear", "copy", "append"}, id.Name) && len(n.Args) > 0 {
			p.change(n.Args[0])
		}
	}
}

// selector checks what is used of an imported package.
func (p *purity) selector(n *ast.SelectorExpr) {
	id, ok := n.X.(*ast.Ident)
	if !ok {
		return
	}
	imported, ok := p.info.Uses[id].(*types.PkgName)
	if !ok {
		return
	}
	rule := harmless[imported.Imported().Path()]
	if rule == "" {
		return
	}
	if listed := slices.Contains(strings.Fields(rule[1:]), n.Sel.Name); listed != (rule[0] == '+') {
		p.fault(n, "uses %s.%s", imported.Imported().Path(), n.Sel.Name)
	}
}

// foreign checks that no function of an excepted file is used.
func (p *purity) foreign(n *ast.Ident) {
	f, ok := p.info.Uses[n].(*types.Func)
	if !ok || f.Pkg() != p.pkg {
		return
	}
	if file := p.fset.Position(f.Pos()).Filename; slices.Contains(p.edges, file) {
		p.fault(n, "calls %s, which is of %s", f.Name(), file)
	}
}

// change checks that code does not write to a variable of the package.
func (p *purity) change(x ast.Expr) {
	for {
		switch e := x.(type) {
		case *ast.IndexExpr:
			x = e.X
		case *ast.SelectorExpr:
			x = e.X
		case *ast.StarExpr:
			x = e.X
		case *ast.ParenExpr:
			x = e.X
		case *ast.SliceExpr:
			x = e.X
		case *ast.Ident:
			if v, ok := p.info.Uses[e].(*types.Var); ok && v.Parent() == p.pkg.Scope() {
				p.fault(e, "changes the variable %s", e.Name)
			}
			return
		default:
			return
		}
	}
}
