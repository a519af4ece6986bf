package domxml

import (
	"strings"

	"github.com/beevik/etree"
)

// White space that a parser makes something else of where it is not written as its number, as the library does not: in attributes all
// of it, in text the carriage return. Characters that no text has stand for it until the rest is written.
var (
	inAttribute = strings.NewReplacer("\t", "\uFDD0", "\n", "\uFDD1", "\r", "\uFDD2")
	inText      = strings.NewReplacer("\r", "\uFDD2")
	byNumber    = strings.NewReplacer("\uFDD0", "&#9;", "\uFDD1", "&#10;", "\uFDD2", "&#13;")
)

// Text is a document as text that means the same when it is read again.
func Text(doc *etree.Document) (string, error) {
	doc = doc.Copy()
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
