package loop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"sluice/internal/model"
)

// FileJournal is a Journal in a file: one JSON line when a Move begins, synced to disk
// before its first Step, and one when it ends. The file is emptied whenever nothing is
// under way, so it stays as small as what it must remember.
type FileJournal struct {
	file journalFile
	open []model.Move
	good int64 // where the last whole line ends
	torn bool  // something else stands behind it: cut off before anything is appended
}

// journalFile is what the journal needs of an os.File that appends.
type journalFile interface {
	io.ReadWriteCloser
	Sync() error
	Truncate(int64) error
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
	sc.Split(wholeLines)
	var torn error
	for n := 1; sc.Scan(); n++ {
		if torn != nil {
			return torn // a broken line with others behind it is not a crash's doing
		}
		var e entry
		line := sc.Bytes()
		err := json.Unmarshal(line, &e)
		if err == nil && !bytes.HasSuffix(line, []byte("\n")) {
			err = io.ErrUnexpectedEOF // it was not synced either
		}
		if err != nil {
			torn, j.torn = fmt.Errorf("line %d is damaged: %w", n, err), true
			continue
		}
		j.good += int64(len(line))
		if e.Begin != nil {
			j.open = append(j.open, *e.Begin)
		}
		if e.End != nil {
			j.drop(*e.End)
		}
	}
	return sc.Err()
}

// wholeLines is bufio.ScanLines, but leaves the newline: it shows that a line is whole.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// Begin implements Journal.
func (j *FileJournal) Begin(m model.Move) error {
	if err := j.write(entry{Begin: &m}, j.file.Sync); err != nil {
		return err
	}
	j.open = append(j.open, m)
	return nil
}

// End implements Journal.
func (j *FileJournal) End(m model.Move) error {
	j.drop(m)
	if len(j.open) == 0 {
		return j.cut(0)
	}
	return j.write(entry{End: &model.Move{Kind: m.Kind, VM: m.VM, VF: m.VF}}, nil)
}

// Close closes the file; what is open in it stays.
func (j *FileJournal) Close() error { return j.file.Close() }

// write appends a line. What a failed one leaves is cut off before the next: a line
// behind half a line would be lost with it, and the journal refused at the next start.
func (j *FileJournal) write(e entry, sync func() error) error {
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if j.torn {
		if err := j.cut(j.good); err != nil {
			return err
		}
	}
	b = append(b, '\n')
	_, err = j.file.Write(b)
	if err == nil && sync != nil {
		err = sync()
	}
	if err != nil {
		j.torn = true
		return fmt.Errorf("journal: %w", err)
	}
	j.good += int64(len(b))
	return nil
}

// cut drops what stands behind a place.
func (j *FileJournal) cut(at int64) error {
	if err := j.file.Truncate(at); err != nil {
		return fmt.Errorf("cut the journal at byte %d: %w", at, err)
	}
	j.good, j.torn = at, false
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
