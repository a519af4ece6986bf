package journal

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/model"
)

func filter(pf string, n byte) model.Filter {
	return model.Filter{PF: pf, MAC: model.MAC{2, 0, 0, 0, 0, n}}
}

func TestFileFilters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "filters")
	var log bytes.Buffer
	open := func() *Filters {
		b, err := OpenFilters(path, slog.New(slog.NewTextHandler(&log, nil)))
		must(t, err)
		t.Cleanup(func() { _ = b.Close() })
		return b
	}
	b := open()
	for n := range byte(5) {
		b.Added(filter("pf0", n))
	}
	b.Added(filter("pf1", 0))
	b.Gone(filter("pf0", 3))
	b.Gone(filter("pf0", 99))
	want := []model.Filter{filter("pf0", 0), filter("pf0", 1), filter("pf0", 2), filter("pf0", 4), filter("pf1", 0)}
	for range 2 {
		b = open()
		if d := cmp.Diff(want, b.All()); d != "" {
			t.Errorf("opened again: %s", d)
		}
	}
	for range 5000 { // the file does not grow with the number of changes
		b.Added(filter("pf0", 50))
		b.Gone(filter("pf0", 50))
	}
	if st, err := os.Stat(path); err != nil || st.Size() > 64<<10 {
		t.Errorf("%d bytes for 5 filters, %v", st.Size(), err)
	}
	if log.Len() > 0 {
		t.Errorf("logged: %s", log.String())
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString("add pf0 52:54\nnonsense\nadd pf9 02:00:00:00:00:07\nadd pf")
	must(t, err)
	must(t, f.Close())
	b = open()
	if d := cmp.Diff(append(want, filter("pf9", 7)), b.All()); d != "" {
		t.Errorf("damaged: %s", d)
	}
	if n := strings.Count(log.String(), "damaged"); n != 1 {
		t.Errorf("logged %d times: %s", n, log.String())
	}
}

// A failure to write is logged once, and the filters are written once that works again.
func TestFileFiltersOnAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "filters")
	must(t, os.Mkdir(filepath.Dir(path), 0o750))
	var log bytes.Buffer
	b, err := OpenFilters(path, slog.New(slog.NewTextHandler(&log, nil)))
	must(t, err)
	must(t, b.file.Close()) // every write fails from here on,
	must(t, os.RemoveAll(filepath.Dir(path)))
	for n := range byte(5) {
		b.Added(filter("pf0", n))
	}
	if n := strings.Count(log.String(), "cannot record"); n != 1 {
		t.Errorf("told %d times: %s", n, log.String())
	}
	must(t, os.Mkdir(filepath.Dir(path), 0o750)) // until there is a state_dir again
	b.Gone(filter("pf0", 0))
	_ = b.Close()
	b, err = OpenFilters(path, slog.New(slog.DiscardHandler))
	must(t, err)
	defer b.Close()
	if n := len(b.All()); n != 4 {
		t.Errorf("%d filters written down, want 4", n)
	}
}
