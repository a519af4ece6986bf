package backend

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"sluice/internal/model"
	"sluice/internal/web"
)

// saved is what people asked for at run time: pins, releases and drain. It outlives the daemon.
type saved struct {
	VMs   []model.VMRule `json:"vms,omitempty"`
	Drain bool           `json:"drain,omitempty"`
}

// Overrides keeps them in a file; the zero value in memory only.
type Overrides struct {
	mu   sync.Mutex
	path string // "": memory only
	now  saved
}

// OpenOverrides reads the file; a missing one means that there are none.
func OpenOverrides(path string) (*Overrides, error) {
	w := &Overrides{path: path}
	b, err := os.ReadFile(path)
	if path == "" || errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &w.now)
	}
	if err != nil {
		return nil, fmt.Errorf("wishes of `sluice pin`, `release` and `drain`: %w; mend or remove %s", err, path)
	}
	return w, nil
}

// change edits the wishes; they count only once they are on disk.
func (w *Overrides) change(edit func(*saved)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := saved{VMs: slices.Clone(w.now.VMs), Drain: w.now.Drain}
	edit(&next)
	if err := w.write(next); err != nil {
		return err
	}
	w.now = next
	return nil
}

// about says whether there is a wish about the VM of a command.
func (w *Overrides) about(c web.Command) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.now.VMs, func(r model.VMRule) bool { return concerns(r, c) })
}

// Over puts them in front of the config's rules, so that they win.
func (w *Overrides) Over(r model.Rules) model.Rules {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.VMs = append(slices.Clone(w.now.VMs), r.VMs...)
	r.Drain = r.Drain || w.now.Drain
	return r
}

// write replaces the file at once or not at all.
func (w *Overrides) write(s saved) error {
	if w.path == "" {
		return nil
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(w.path), ".wishes-*")
	if err != nil {
		return fmt.Errorf("save wishes: %w", err)
	}
	_, err = tmp.Write(append(b, '\n'))
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), w.path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("save wishes: %w", err)
	}
	return nil
}
