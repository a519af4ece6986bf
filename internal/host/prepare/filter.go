package prepare

import (
	"errors"
	"fmt"
)

// Filter prepares a domain's XML that is on its way to libvirt, or undoes that. Whatever goes wrong it returns doc itself, and the error.
// It changes nothing that Undo would not give back byte for byte.
func Filter(doc string, undo bool, o Options) (out string, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = doc, fmt.Errorf("prepare the domain's XML: %v", r)
		}
	}()
	if undo {
		r, err := Undo(doc)
		if err != nil {
			return doc, err
		}
		return r.XML, nil
	}
	o.Unplaced = true
	r, err := Prepare(doc, o)
	if err != nil || len(r.Changes) == 0 {
		return doc, err
	}
	// What was prepared before and lacks something now goes back to what it was before that.
	before, err := Undo(doc)
	if err != nil {
		return doc, err
	}
	if back, err := Undo(r.XML); err != nil || back.XML != before.XML {
		return doc, errors.Join(errors.New("it is written in a way that --undo could not restore"), err)
	}
	return r.XML, nil
}
