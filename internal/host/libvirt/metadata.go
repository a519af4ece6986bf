package libvirt

import (
	"encoding/xml"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"sluice/internal/host/libvirt/domxml"
	"sluice/internal/model"
)

// Namespace is the XML namespace of the element in a domain's <metadata> that specifies its SLA:
//
//	<sluice:sla xmlns:sluice="urn:sluice:sla:1" guarantee="2Gbit 50kpps" limit="5Gbit" receive="5Gbit" weight="2" class="gold">
//	  <sluice:sla nic="ua-net1" guarantee="500Mbit"/>
//	</sluice:sla>
const Namespace = namespaces + "sla:1"

// namespaces is the prefix of the namespaces that Sluice reads or reports problems about.
const namespaces = "urn:sluice:"

// Bounds of a domain's metadata.
const (
	maxMetadata = 8 << 10 // bytes
	maxNICSLAs  = 32
)

// element is an element of any kind.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Children []element  `xml:",any"`
	Text     string     `xml:",chardata"`
}

// readMetadata returns the SLAs in a domain's metadata, those of single NICs first. It ignores elements outside of Sluice's namespaces. The
// error says what is wrong.
func readMetadata(doc string) ([]model.NICSLA, error) {
	if !strings.Contains(doc, namespaces) {
		return nil, nil
	}
	var x struct {
		Metadata struct {
			Children []element `xml:",any"`
		} `xml:"metadata"`
	}
	if err := xml.Unmarshal([]byte(doc), &x); err != nil {
		return nil, err
	}
	var out []model.NICSLA
	var seen bool
	for i := range x.Metadata.Children {
		e := &x.Metadata.Children[i]
		switch {
		case !strings.HasPrefix(e.XMLName.Space, namespaces), e.XMLName.Space == domxml.Prepared:
			continue
		case e.XMLName.Space != Namespace:
			return nil, fmt.Errorf("it has the namespace %q, and this version of Sluice reads %s", model.Shorten(e.XMLName.Space), Namespace)
		case e.XMLName.Local != "sla":
			return nil, fmt.Errorf("unknown element %q: there is only sla", model.Shorten(e.XMLName.Local))
		case seen:
			return nil, errors.New("there are two elements sla: keep one, and put what is about single NICs inside it")
		case e.size() > maxMetadata || len(e.Children) > maxNICSLAs:
			return nil, fmt.Errorf("it is larger than %d KiB or has more than %d NICs", maxMetadata>>10, maxNICSLAs)
		}
		seen = true
		var err error
		if out, err = e.slas(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// size returns the length of the element's text, names and attributes, in bytes.
func (e *element) size() int {
	n := len(e.XMLName.Local) + len(e.Text)
	for _, a := range e.Attrs {
		n += len(a.Name.Local) + len(a.Value)
	}
	for i := range e.Children {
		n += e.Children[i].size()
	}
	return n
}

// slas parses the element and those inside it.
func (e *element) slas() ([]model.NICSLA, error) {
	own, err := e.sla()
	if err != nil {
		return nil, err
	}
	var out []model.NICSLA
	for i := range e.Children {
		c := &e.Children[i]
		if c.XMLName.Local != "sla" || len(c.Children) > 0 {
			return nil, fmt.Errorf("unknown element %q: there are only elements sla in sla, one deep", model.Shorten(c.XMLName.Local))
		}
		one, err := c.sla()
		switch {
		case err != nil:
			return nil, err
		case one.NIC == "":
			return nil, errors.New(`an sla inside sla has no nic: write nic="alias, MAC or network"`)
		case slices.ContainsFunc(out, func(o model.NICSLA) bool { return o.NIC == one.NIC }):
			return nil, fmt.Errorf("two elements are about the NIC %q: keep one", one.NIC)
		}
		out = append(out, one)
	}
	if own.SLA != (model.SLA{Source: source}) {
		out = append(out, own)
	}
	return out, nil
}

// source is the origin of such an SLA as shown to users.
const source = "metadata"

// sla parses the attributes of one element.
func (e *element) sla() (model.NICSLA, error) {
	out := model.NICSLA{SLA: model.SLA{Source: source}}
	if strings.TrimSpace(e.Text) != "" {
		return out, fmt.Errorf("there is text, %q: write attributes", model.Shorten(strings.TrimSpace(e.Text)))
	}
	for _, a := range e.Attrs {
		if a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns" {
			continue
		}
		if err := set(&out, a.Name.Local, a.Value); err != nil {
			return out, fmt.Errorf("%s: %w", model.Shorten(a.Name.Local), err)
		}
	}
	s := &out.SLA
	if g, l := s.Guarantee, s.Limit; l.Bits > 0 && g.Bits > l.Bits || l.Packets > 0 && g.Packets > l.Packets {
		return out, fmt.Errorf("guarantee: %s is above the limit of %s: raise the limit or lower the guarantee", g, l)
	}
	return out, nil
}

// set parses one attribute.
func set(n *model.NICSLA, name, value string) (err error) {
	switch name {
	case "guarantee":
		n.SLA.Guarantee, err = model.ParseRate(value)
	case "limit":
		n.SLA.Limit, err = model.ParseRate(value)
	case "receive":
		n.SLA.Receive, err = model.ParseRate(value)
	case "weight":
		if n.SLA.Weight, err = strconv.ParseFloat(value, 64); err != nil || !(n.SLA.Weight >= 0.001 && n.SLA.Weight <= 1000) {
			return fmt.Errorf("%q is not a number from 0.001 to 1000", model.Shorten(value))
		}
	case "class":
		if n.SLA.Class = value; !plainText(value) {
			return fmt.Errorf("%q is not a valid class name", model.Shorten(value))
		}
	case "nic":
		if n.NIC = value; !plainText(value) {
			return fmt.Errorf("%q is not a pattern", model.Shorten(value))
		}
		if _, err = path.Match(value, ""); err != nil {
			return fmt.Errorf("%q is not a pattern", model.Shorten(value))
		}
	default:
		return errors.New("no such attribute: there are guarantee, limit, receive, weight, class and nic")
	}
	return err
}

// plainText reports whether text is short and printable.
func plainText(text string) bool {
	return text != "" && len(text) <= 64 && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// metadataProblem reports that a domain's metadata is ignored, and what to do.
func metadataProblem(vm, why string) model.Problem {
	return model.Problem{
		Subject: vm,
		Text:    "the SLA in its metadata cannot be read and is ignored: " + why,
		Remedy: fmt.Sprintf(`set it again, for example: virsh metadata %[1]s --uri %[2]s --key sluice --set '<sla guarantee="2Gbit"/>'; `+
			`or remove it: virsh metadata %[1]s --uri %[2]s --remove`, vm, Namespace),
	}
}
