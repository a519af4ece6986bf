// Package prepare adds to a domain's XML what a VM needs so that a VF can be plugged beside its virtio NIC, and takes exactly
// that out again. It makes no call: XML goes in, and changed XML and a list of the changes come out.
//
// A record of what was added is kept in the domain's <metadata>, which outlasts what others change in the definition.
package prepare

import (
	"fmt"

	"github.com/rogpeppe/go-internal/diff"

	"sluice/internal/host/libvirt/domxml"
	"sluice/internal/model"
)

// Options say what a VM is prepared for.
type Options struct {
	NICs     []string                    // those that are to have VFs: patterns on alias, MAC or network; none: the one that can
	Bond     bool                        // its guest has an active-backup bond, and needs no teaming
	Agent    bool                        // it gets a channel for qemu-guest-agent too
	Networks map[string]bool             // bridges that Sluice's PFs lead to; empty: any
	Bridges  map[string]string           // those of libvirt's networks, by name
	IsVF     func(model.PCIAddress) bool // nil: no PCI device is known to be a VF
}

// Result is the XML as it is to be, and what is new in it. Without Changes the XML is what was given.
type Result struct {
	XML     string
	Changes []string // one sentence each
	Notes   []string // what a person must know beside
}

// Refusal says why a domain is left as it is, and what to do about it.
type Refusal struct{ Text, Remedy string }

func (r *Refusal) Error() string { return r.Text + ": " + r.Remedy }

func refuse(remedy, format string, args ...any) error {
	return &Refusal{Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

// editor changes one domain.
type editor struct {
	*domxml.Domain
	o      Options
	record *record
	out    Result
}

func edit(doc string, o Options) (*editor, error) {
	d, err := domxml.Parse(doc)
	if err != nil {
		return nil, err
	}
	d.Doc.WriteSettings.AttrSingleQuote = true // as libvirt writes
	r, err := readRecord(d)
	return &editor{Domain: d, o: o, record: r, out: Result{XML: doc}}, err
}

func (e *editor) changed(format string, args ...any) {
	e.out.Changes = append(e.out.Changes, fmt.Sprintf(format, args...))
}

func (e *editor) note(format string, args ...any) {
	e.out.Notes = append(e.out.Notes, fmt.Sprintf(format, args...))
}

// result is the outcome, with the XML written anew where it was changed.
func (e *editor) result() (Result, error) {
	if len(e.out.Changes) == 0 {
		return e.out, nil
	}
	var err error
	e.out.XML, err = e.String()
	return e.out, err
}

// Prepare adds to a domain's persistent XML what is missing. The error is a *Refusal where it is not to be prepared.
func Prepare(doc string, o Options) (Result, error) {
	e, err := edit(doc, o)
	if err != nil {
		return Result{}, err
	}
	if err := e.foreignVF(); err != nil {
		return Result{}, err
	}
	if err := e.machine(); err != nil {
		return Result{}, err
	}
	nics, err := e.choose()
	if err != nil {
		return Result{}, err
	}
	for _, n := range nics {
		e.pair(n)
	}
	e.acpi()
	if o.Agent {
		if err := e.agent(); err != nil {
			return Result{}, err
		}
	}
	if err := e.ports(nics); err != nil {
		return Result{}, err
	}
	if len(e.out.Changes) > 0 {
		e.record.write(e.Domain)
	}
	return e.result()
}

// Diff is what changes from one XML to the other, as a unified diff; "" is nothing.
func Diff(name, before, after string) (string, error) {
	d, err := domxml.Parse(before)
	if err != nil {
		return "", err
	}
	d.Doc.WriteSettings.AttrSingleQuote = true // where libvirt quotes otherwise, in metadata, is no change
	if before, err = d.String(); err != nil {
		return "", err
	}
	if before == after {
		return "", nil
	}
	return string(diff.Diff(name, []byte(before), name+" (prepared)", []byte(after))), nil
}
