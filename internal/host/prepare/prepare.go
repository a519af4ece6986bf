// Package prepare adds to a domain's XML what a VM needs so that a VF can be plugged beside its virtio NIC, and can undo exactly these
// additions. It is pure: it takes XML, and returns changed XML and a list of the changes.
//
// It records the additions in the domain's <metadata>, which survives other changes to the definition.
package prepare

import (
	"fmt"

	"github.com/rogpeppe/go-internal/diff"

	"sluice/internal/host/libvirt/domxml"
	"sluice/internal/model"
)

// Options say what a VM is prepared for.
type Options struct {
	NICs     []string                    // patterns on alias, MAC or network of the NICs that are to have VFs; none: the only NIC that can
	Bond     bool                        // the guest has an active-backup bond and needs no teaming
	Agent    bool                        // also add a channel for qemu-guest-agent
	Networks map[string]bool             // switches that Sluice's PFs lead to; empty: any
	Connect  []model.TapConnection       // how a tap is connected to these switches
	Switches map[string]string           // switches of libvirt's networks, by network name
	Unplaced bool                        // libvirt has not completed the XML yet: controllers and addresses may be missing
	IsVF     func(model.PCIAddress) bool // nil: no PCI device is known to be a VF
}

// Result is the resulting XML and what changed in it. Without Changes, the XML is the input.
type Result struct {
	XML     string
	Changes []string // one sentence each
	Notes   []string // what the user must know in addition
}

// Refusal says why a domain is left unchanged, and what to do about it.
type Refusal struct{ Text, Remedy string }

func (r *Refusal) Error() string { return r.Text + ": " + r.Remedy }

func refuse(remedy, format string, args ...any) error {
	return &Refusal{Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

// editor changes one domain.
type editor struct {
	*domxml.Domain
	o        Options
	original *domxml.Original
	record   *record
	out      Result
}

func edit(doc string, o Options) (*editor, error) {
	d, err := domxml.Parse(doc)
	if err != nil {
		return nil, err
	}
	d.Doc.WriteSettings.AttrSingleQuote = true // as libvirt does
	original, err := d.Original(doc)
	if err != nil {
		return nil, err
	}
	r, err := readRecord(d)
	return &editor{Domain: d, o: o, original: original, record: r, out: Result{XML: doc}}, err
}

func (e *editor) changed(format string, args ...any) {
	e.out.Changes = append(e.out.Changes, fmt.Sprintf(format, args...))
}

func (e *editor) note(format string, args ...any) {
	e.out.Notes = append(e.out.Notes, fmt.Sprintf(format, args...))
}

// result returns the outcome. What was not changed keeps its bytes.
func (e *editor) result() (Result, error) {
	if len(e.out.Changes) == 0 {
		return e.out, nil
	}
	var err error
	e.out.XML, err = e.original.Splice(e.Domain)
	return e.out, err
}

// Prepare adds what is missing to a domain's persistent XML. The error is a *Refusal if the domain cannot be prepared.
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

// Diff returns a unified diff between two versions of a domain's XML, "" if they are equal.
func Diff(name, before, after string) string {
	if before == after {
		return ""
	}
	return string(diff.Diff(name, []byte(before), name+" (prepared)", []byte(after)))
}
