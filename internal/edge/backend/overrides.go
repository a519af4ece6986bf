package backend

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"sluice/api/v1"
	"sluice/internal/base/statefile"
	"sluice/internal/model"
)

// Overrides are what users requested at run time, and what other programs tell the daemon, stored in files. The zero value keeps
// them in memory only.
type Overrides struct {
	changing sync.Mutex // serializes changes, from the file to the loop; never locked in the loop

	mu   sync.Mutex
	path string // "": memory only
	now  []model.Override

	claims told[model.Claim] // what the fleet has claimed here
	ports  told[model.Port]  // what ports of Neutron ask for
}

// OpenOverrides reads the file; a missing file means that there are no overrides.
func OpenOverrides(path string) (*Overrides, error) {
	list, err := readFile(path)
	if err != nil {
		return nil, err
	}
	w := &Overrides{path: path, now: list}
	w.claims = told[model.Claim]{what: "claims of the fleet", name: "claims", most: api.MostClaims, who: "`sluice fleet publish`"}
	w.ports = told[model.Port]{what: "ports of Neutron", name: "ports", most: api.MostPorts, who: "Neutron's agent"}
	if path != "" {
		dir := filepath.Dir(path)
		if err := errors.Join(w.claims.read(dir, model.Claim.Compare), w.ports.read(dir, model.Port.Compare)); err != nil {
			return nil, err
		}
	}
	w.Expire(time.Now())
	return w, nil
}

// List returns the overrides in force.
func (w *Overrides) List() []model.Override {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.now)
}

// Expire removes expired overrides and reports whether there were any. It does not touch the file, since it runs in the
// loop; whoever reads the file checks the expiry too.
func (w *Overrides) Expire(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	ended := func(o model.Override) bool { return o.Ended(now) }
	if !slices.ContainsFunc(w.now, ended) {
		return false
	}
	w.now = slices.DeleteFunc(slices.Clone(w.now), ended)
	return true
}

// Over prepends the overrides to the configuration's rules, so that they take precedence, and adds claims and ports.
func (w *Overrides) Over(r model.Rules) model.Rules {
	r.Claims, r.Ports = w.Claims(), w.Ports()
	return over(w.List(), r)
}

// over prepends overrides to rules. Of SLAs, those for single NICs come first, then the most recent.
func over(list []model.Override, r model.Rules) model.Rules {
	var places, nics, all []model.VMRule
	for i := range list {
		switch o := &list[i]; {
		case o.Kind == model.OverrideDrain:
			r.Drain, r.DrainBy = true, o.By
		case o.Places():
			places = append(places, o.Rule())
		case o.NIC != "":
			nics = slices.Insert(nics, 0, o.Rule())
		default:
			all = slices.Insert(all, 0, o.Rule())
		}
	}
	r.VMs = slices.Concat(places, nics, all, r.VMs)
	return r
}

// change stores the result of edit and calls apply to update the loop. If either fails, the overrides are restored, on disk
// too.
func (w *Overrides) change(edit func([]model.Override) ([]model.Override, error), apply func() error) error {
	w.changing.Lock()
	defer w.changing.Unlock()
	before := w.List()
	next, err := edit(slices.Clone(before))
	if err == nil {
		err = w.keep(next)
	}
	if err != nil {
		return err
	}
	if err = apply(); err == nil {
		return nil
	}
	if back := w.keep(before); back != nil {
		w.mu.Lock()
		w.now = before
		w.mu.Unlock()
		text, remedy := back.Error(), "see the daemon's log: journalctl -u sluice"
		if e := (*api.Error)(nil); errors.As(back, &e) {
			text, remedy = e.Text, e.Remedy+"; then repeat the command, or its opposite"
		}
		return &api.Error{
			Text: fmt.Sprintf("it is not in force (%v), but still in %s, and takes effect at the next start: %s", err, w.path, text), Remedy: remedy,
		}
	}
	return &api.Error{Text: fmt.Sprintf("nothing was changed: %v", err), Remedy: "see the daemon's log: journalctl -u sluice"}
}

// keep puts the overrides in force, storing them on disk first.
func (w *Overrides) keep(list []model.Override) error {
	if w.path != "" {
		text, err := encode(list)
		if err != nil {
			return &api.Error{Text: err.Error()}
		}
		if err := statefile.Replace(w.path, text); err != nil {
			return &api.Error{Text: fmt.Sprintf("it cannot be saved: %v", err), Remedy: statefile.Remedy(filepath.Dir(w.path), err)}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = list
	return nil
}
