package domxml

import (
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// AddAfter inserts an element after sibling, on its own line if sibling is on one. Remove reverts it exactly.
func AddAfter(sibling, e *etree.Element) {
	space := spaceBefore(sibling)
	at := sibling.Index() + 1
	if space != "" {
		sibling.Parent().InsertChildAt(at, etree.NewText(space))
		at++
		indent(e, space)
	}
	sibling.Parent().InsertChildAt(at, e)
}

// Append inserts an element after the last child element of parent.
func Append(parent, e *etree.Element) {
	if all := parent.ChildElements(); len(all) > 0 {
		AddAfter(all[len(all)-1], e)
		return
	}
	parent.InsertChildAt(0, e) // before all white space, which Remove must leave
}

// Remove removes an element together with the white space before it.
func Remove(e *etree.Element) {
	parent := e.Parent()
	if spaceBefore(e) != "" {
		parent.RemoveChildAt(e.Index() - 1)
	}
	parent.RemoveChild(e)
}

// spaceBefore returns the white space before an element, "" if something else precedes it.
func spaceBefore(e *etree.Element) string {
	i := e.Index()
	if i == 0 {
		return ""
	}
	text, ok := e.Parent().Child[i-1].(*etree.CharData)
	if !ok || text.IsCData() || strings.TrimSpace(text.Data) != "" {
		return ""
	}
	return text.Data
}

// indent puts each element inside e on its own line.
func indent(e *etree.Element, space string) {
	all := e.ChildElements()
	if len(all) == 0 || !strings.Contains(space, "\n") {
		return
	}
	inner := space + "  "
	for _, c := range slices.Backward(all) {
		indent(c, inner)
		e.InsertChildAt(c.Index(), etree.NewText(inner))
	}
	e.AddChild(etree.NewText(space))
}
