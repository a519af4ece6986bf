package domxml

import (
	"strings"

	"github.com/beevik/etree"
)

// A parser normalizes white space that is not written as a character reference: all of it in attributes, the carriage return in text. The
// library does not write such references, so noncharacters stand in for this white space until the document has been serialized.
var (
	inAttribute = strings.NewReplacer("\t", "\uFDD0", "\n", "\uFDD1", "\r", "\uFDD2")
	inText      = strings.NewReplacer("\r", "\uFDD2")
	byNumber    = strings.NewReplacer("\uFDD0", "&#9;", "\uFDD1", "&#10;", "\uFDD2", "&#13;")
)

// String serializes the document so that parsing the text yields the same document.
func (d *Domain) String() (string, error) {
	doc := d.Doc.Copy()
	mark(&doc.Element)
	text, err := doc.WriteToString()
	return byNumber.Replace(text), err
}

func mark(e *etree.Element) {
	for i := range e.Attr {
		e.Attr[i].Value = inAttribute.Replace(e.Attr[i].Value)
	}
	for _, c := range e.Child {
		switch c := c.(type) {
		case *etree.Element:
			mark(c)
		case *etree.CharData:
			if !c.IsCData() {
				c.Data = inText.Replace(c.Data)
			}
		}
	}
}
