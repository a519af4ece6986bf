package domxml

import "testing"

// Text of others in a domain keeps its meaning when it is written again: a bare line break in an attribute would be read as a space.
func TestTextMeansTheSame(t *testing.T) {
	const doc = "<domain type='kvm'><metadata><o:x xmlns:o='urn:other' a='1&#10;2&#9;3&#13;4 &lt;&amp;&gt;'>5&#13;\n6\t<![CDATA[7 < 8]]></o:x></metadata><devices/></domain>"
	for _, single := range []bool{true, false} {
		d, err := Parse(doc)
		if err != nil {
			t.Fatal(err)
		}
		d.Doc.WriteSettings.AttrSingleQuote = single
		text, err := d.String()
		if err != nil {
			t.Fatal(err)
		}
		if single && text != doc {
			t.Errorf("it is\n%q, not\n%q", text, doc)
		}
		again, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []*Domain{d, again} {
			o := x.Root.FindElement("metadata/x")
			if a := o.SelectAttrValue("a", ""); a != "1\n2\t3\r4 <&>" || o.Text() != "5\r\n6\t7 < 8" {
				t.Errorf("%q: attribute %q, text %q", text, a, o.Text())
			}
		}
	}
}
