package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"sluice/api/v1"
	"sluice/internal/base/input"
	"sluice/internal/base/statefile"
)

// told is a list that another program tells the daemon as a whole, and that is kept in a file of its own beside that of the overrides.
type told[T any] struct {
	what string // in messages
	name string // of the file, and of the list in it
	most int
	who  string // tells the daemon again
	list []T
}

// file is where the list is kept.
func (t *told[T]) file(w *Overrides) string {
	return filepath.Join(filepath.Dir(w.path), t.name+".json")
}

// keep puts a list in force, storing it on disk first.
func (t *told[T]) keep(w *Overrides, list []T) error {
	if w.path != "" {
		text, err := json.MarshalIndent(map[string]any{"version": fileVersion, t.name: list}, "", "  ")
		if err == nil {
			err = statefile.Replace(t.file(w), append(text, '\n'))
		}
		if err != nil {
			return &api.Error{Text: fmt.Sprintf("%s cannot be saved: %v", t.what, err), Remedy: statefile.Remedy(filepath.Dir(w.path), err)}
		}
	}
	t.set(w, list)
	return nil
}

func (t *told[T]) set(w *Overrides, list []T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.list = slices.Clone(list)
}

// get returns the list in force.
func (t *told[T]) get(w *Overrides) []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(t.list)
}

// read reads the list of an earlier run; a missing file means an empty one. compare orders it, and finds what is named twice.
func (t *told[T]) read(dir string, compare func(a, b T) int) error {
	path := filepath.Join(dir, t.name+".json")
	text, err := input.Read(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var f map[string]json.RawMessage
	version := 0
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err == nil {
		err = json.Unmarshal(f["version"], &version)
	}
	if err == nil && version != fileVersion {
		err = fmt.Errorf("its version is %d, and this program reads version %d", version, fileVersion)
	}
	if err == nil {
		err = json.Unmarshal(f[t.name], &t.list)
	}
	if err == nil && len(t.list) > t.most {
		err = fmt.Errorf("it has %d, more than the limit of %d", len(t.list), t.most)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w; move it away: %s tells the daemon again", t.what, path, err, t.who)
	}
	slices.SortFunc(t.list, compare)
	t.list = slices.CompactFunc(t.list, func(a, b T) bool { return compare(a, b) == 0 })
	return nil
}

// tell puts a list in force, unless it is that before; if the loop refuses it, that before stays.
func tell[T comparable](ctx context.Context, b *Backend, t *told[T], before, now []T) (changed bool, err error) {
	if slices.Equal(before, now) {
		return false, nil
	}
	if err := t.keep(b.overrides, now); err != nil {
		return false, err
	}
	var failed error
	err = b.call(ctx, func(time.Time) { failed = b.core.SetRules(b.overrides.Over(b.rules())) })
	if err = errors.Join(err, failed); err == nil {
		return true, nil
	}
	if back := t.keep(b.overrides, before); back != nil {
		t.set(b.overrides, before) // so that the same, told again, is no repetition
		text, remedy := back.Error(), ""
		if e := (*api.Error)(nil); errors.As(back, &e) {
			text, remedy = e.Text, e.Remedy+"; then "
		}
		return false, &api.Error{
			Text: fmt.Sprintf("what was in force before still is (%v), but %s may have the new list, which would be in force after a restart: %v",
				err, t.file(b.overrides), text),
			Remedy: fmt.Sprintf("%s%s tells the daemon again, which mends both; `sluice capacity` shows what is in force", remedy, t.who),
		}
	}
	return false, &api.Error{Text: fmt.Sprintf("nothing was changed: %v", err), Remedy: "see the daemon's log: journalctl -u sluice"}
}
