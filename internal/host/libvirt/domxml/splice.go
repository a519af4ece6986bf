package domxml

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"

	"github.com/beevik/etree"
)

// Original says where everything in a document is in the text that it was parsed from.
type Original struct {
	text  string
	spans map[etree.Token]*span
}

// span is where a token is, in bytes. An element's content is between open and shut; both are 0 for <x/>.
type span struct {
	from, to, open, shut int
	tokens               int // in an element
}

var errTokens = errors.New("read domain XML: its tokens could not be found in its text")

// Original returns where the document, not changed yet, is in doc, the text that it was parsed from.
func (d *Domain) Original(doc string) (*Original, error) {
	o := &Original{text: doc, spans: map[etree.Token]*span{}}
	dec := xml.NewDecoder(strings.NewReader(doc))
	dec.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // as the document's parser does
	open := []*etree.Element{&d.Doc.Element}                                             // the elements around the token
	next := []int{0}                                                                     // the token's place in each
	for {
		from := int(dec.InputOffset())
		t, err := dec.RawToken()
		if errors.Is(err, io.EOF) {
			return o, nil
		}
		if err != nil {
			return nil, err
		}
		to, last := int(dec.InputOffset()), len(open)-1
		if _, end := t.(xml.EndElement); end {
			at := o.spans[open[last]]
			if at == nil || next[last] != len(open[last].Child) {
				return nil, errTokens
			}
			if at.to, at.shut, at.tokens = to, from, next[last]; from == to { // of <x/>
				at.open, at.shut = 0, 0
			}
			open, next = open[:last], next[:last]
			continue
		}
		if next[last] == len(open[last].Child) {
			return nil, errTokens
		}
		token := open[last].Child[next[last]]
		next[last]++
		_, start := t.(xml.StartElement)
		e, element := token.(*etree.Element)
		if start != element {
			return nil, errTokens
		}
		o.spans[token] = &span{from: from, to: to, open: to}
		if element {
			open, next = append(open, e), append(next, 0)
		}
	}
}

// Splice serializes the changed document and keeps every byte of the original that added and removed elements leave in place: quotes, the
// XML declaration, white space inside tags. It does not see attributes that were changed.
func (o *Original) Splice(d *Domain) (string, error) {
	var out strings.Builder
	for _, c := range d.Doc.Child {
		if err := o.write(&out, c, d.Doc.WriteSettings); err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

func (o *Original) write(out *strings.Builder, t etree.Token, settings etree.WriteSettings) error {
	at := o.spans[t]
	e, element := t.(*etree.Element)
	if !element {
		if c, ok := t.(*etree.CharData); ok && at == nil {
			out.WriteString(c.Data) // white space before an added element
		} else if at != nil {
			out.WriteString(o.text[at.from:at.to])
		}
		return nil
	}
	if at == nil {
		one := etree.NewDocument()
		one.WriteSettings = settings
		one.AddChild(e.Copy())
		_, err := one.WriteTo(out)
		return err
	}
	tag, end := o.text[at.from:at.to], ""
	switch {
	case at.open == 0 && len(e.Child) > 0:
		tag, end = strings.TrimSuffix(tag, "/>")+">", "</"+e.FullTag()+">"
	case at.open > 0 && len(e.Child) == 0 && at.tokens > 0:
		tag = strings.TrimSuffix(o.text[at.from:at.open], ">") + "/>"
	case at.open > 0:
		tag, end = o.text[at.from:at.open], o.text[at.shut:at.to]
	}
	out.WriteString(tag)
	for _, c := range e.Child {
		if err := o.write(out, c, settings); err != nil {
			return err
		}
	}
	out.WriteString(end)
	return nil
}
