package loop

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sluice/internal/model"
)

// FileJournal is a Journal in a file: one JSON line when a Move begins, synced to disk
// before its first Step, and one when it ends. The file is emptied whenever nothing is
// under way, so it stays as small as what it must remember.
type FileJournal struct {
	file *os.File
	open []model.Move
}

// entry is a line of the journal.
type entry struct {
	Begin *model.Move `json:"begin,omitempty"`
	End   *model.Move `json:"end,omitempty"`
}

// OpenJournal opens or makes the journal and returns the Moves an earlier run left. A
// torn last line, as a crash leaves one, is dropped: its Move had no Step done yet.
func OpenJournal(path string) (*FileJournal, []model.Move, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, nil, fmt.Errorf("journal: %w; choose another state_dir or mend its permissions", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return nil, nil, fmt.Errorf("journal: %w", err)
	}
	j := &FileJournal{file: f}
	if err := j.read(); err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("journal %s: %w; move it away to start without it, then run `sluice fsck`", path, err)
	}
	return j, slices.Clone(j.open), nil
}

// maxLine bounds a journal line; a Move has about a dozen Steps of 300 bytes.
const maxLine = 1 << 20

func (j *FileJournal) read() error {
	sc := bufio.NewScanner(j.file)
	sc.Buffer(nil, maxLine)
	var torn error
	for n := 1; sc.Scan(); n++ {
		if torn != nil {
			return torn // a broken line with others behind it is not a crash's doing
		}
		var e entry
		if err := json.Unmarshal(sc.Bytes(), &e); err != nil {
			torn = fmt.Errorf("line %d is damaged: %w", n, err)
			continue
		}
		if e.Begin != nil {
			j.open = append(j.open, *e.Begin)
		}
		if e.End != nil {
			j.drop(*e.End)
		}
	}
	return sc.Err()
}

// Begin implements Journal.
func (j *FileJournal) Begin(m model.Move) error {
	if err := j.write(entry{Begin: &m}); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.open = append(j.open, m)
	return nil
}

// End implements Journal.
func (j *FileJournal) End(m model.Move) error {
	j.drop(m)
	if len(j.open) == 0 {
		return j.file.Truncate(0)
	}
	return j.write(entry{End: &model.Move{Kind: m.Kind, VM: m.VM, VF: m.VF}})
}

// Close closes the file; what is open in it stays.
func (j *FileJournal) Close() error { return j.file.Close() }

func (j *FileJournal) write(e entry) error {
	b, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

func (j *FileJournal) drop(m model.Move) {
	i := slices.IndexFunc(j.open, func(o model.Move) bool { return o.VM == m.VM && o.VF == m.VF })
	if i >= 0 {
		j.open = slices.Delete(j.open, i, i+1)
	}
}

var _ Journal = (*FileJournal)(nil)

// NoJournal is for a loop that changes nothing.
type NoJournal struct{}

// Begin implements Journal; it refuses, since nobody would remember.
func (NoJournal) Begin(model.Move) error { return errors.New("there is no journal") }

// End implements Journal.
func (NoJournal) End(model.Move) error { return nil }
