package journal

import (
	"bufio"
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"sluice/internal/model"
)

// Filters implements loop.Filters in a file, with a line for each change. It is not synced: when the machine goes down, the
// filters are gone too. A failed write is logged once; the whole file is rewritten as soon as writing works again.
type Filters struct {
	path   string
	log    *slog.Logger
	file   *os.File
	all    map[model.Filter]bool
	lines  int
	failed bool
}

// OpenFilters opens or creates the file. It skips damaged lines and logs them.
func OpenFilters(path string, log *slog.Logger) (*Filters, error) {
	b := &Filters{path: path, log: log, all: map[model.Filter]bool{}}
	f, err := openRegular(path)
	if err != nil {
		return nil, fmt.Errorf("open the list of filters: %w", err)
	}
	defer f.Close()
	bad := 0
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		if !b.read(sc.Text()) {
			bad++
		}
	}
	if bad > 0 || sc.Err() != nil {
		log.Warn("the list of the filters that Sluice added is damaged; filters that are missing from it are left alone",
			"file", path, "lines", bad, "error", sc.Err())
	}
	if err := b.rewrite(); err != nil {
		b.refused(err)
	}
	return b, nil
}

func (b *Filters) read(line string) bool {
	word := strings.Fields(line)
	if len(word) != 3 || word[0] != "add" && word[0] != "del" {
		return false
	}
	mac, err := model.ParseMAC(word[2])
	if err != nil {
		return false
	}
	if f := (model.Filter{PF: word[1], MAC: mac}); word[0] == "add" {
		b.all[f] = true
	} else {
		delete(b.all, f)
	}
	return true
}

// rewrite replaces the file by one with the current filters only.
func (b *Filters) rewrite() error {
	tmp, err := os.OpenFile(b.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(tmp)
	for _, f := range b.All() {
		_, _ = fmt.Fprintf(w, "add %s %s\n", f.PF, f.MAC)
	}
	if err = w.Flush(); err == nil {
		err = os.Rename(tmp.Name(), b.path)
	}
	if err != nil {
		_ = tmp.Close()
		_ = os.Remove(tmp.Name())
		return err
	}
	_ = b.Close()
	b.file, b.lines = tmp, len(b.all)
	return nil
}

// Close closes the file.
func (b *Filters) Close() error {
	if b.file == nil {
		return nil
	}
	return b.file.Close()
}

// All implements loop.Filters; the filters are sorted.
func (b *Filters) All() []model.Filter {
	return slices.SortedFunc(maps.Keys(b.all), func(x, y model.Filter) int {
		return cmp.Or(cmp.Compare(x.PF, y.PF), slices.Compare(x.MAC[:], y.MAC[:]))
	})
}

// Added implements loop.Filters.
func (b *Filters) Added(f model.Filter) {
	b.all[f] = true
	b.append("add", f)
}

// Gone implements loop.Filters.
func (b *Filters) Gone(f model.Filter) {
	delete(b.all, f)
	b.append("del", f)
}

func (b *Filters) append(what string, f model.Filter) {
	var err error
	if b.lines++; b.failed || b.lines > 2*len(b.all)+1000 {
		err = b.rewrite() // includes this change
	} else {
		_, err = fmt.Fprintf(b.file, "%s %s %s\n", what, f.PF, f.MAC)
	}
	if err != nil {
		b.refused(err)
	} else {
		b.failed = false
	}
}

// refused logs, once, that the file cannot be written; the next change tries again.
func (b *Filters) refused(err error) {
	if !b.failed {
		b.log.Error("cannot record which filters Sluice added; those of VMs that end while sluiced is stopped will remain",
			"file", b.path, "error", err)
	}
	b.failed = true
}
