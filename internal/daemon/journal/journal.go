package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"sluice/internal/base/statefile"
	"sluice/internal/control/executor"
	"sluice/internal/model"
)

// File is an executor.Journal in a file: one line when a Move begins, synced to disk before its first Step, and one when it ends.
// The file is emptied whenever nothing is under way, and rewritten when it has grown beyond what it must remember.
type File struct {
	path    string
	file    file
	create  func(path string) (file, error) // creates an empty file, or empties one
	open    []model.Move
	good    int64 // end of the last whole line
	torn    bool  // there is something else after good: cut off before anything is appended
	rewrite int64 // the file is rewritten when it is longer than this
}

// file is the part of an os.File, opened for appending, that the journal needs.
type file interface {
	io.ReadWriteCloser
	Sync() error
	Truncate(int64) error
}

// entry is a line of the journal: the CRC-32C of the JSON in eight hexadecimal digits, a space, the JSON.
type entry struct {
	Begin *model.Move `json:"begin,omitempty"`
	End   *model.Move `json:"end,omitempty"`

	Event *model.Event `json:"event,omitempty"` // only in the file of events
}

// Bounds in bytes. A Move has about a dozen Steps of 300 bytes; thousands may be open.
const (
	maxLine    = 1 << 20
	maxJournal = 64 << 20
	minRewrite = 1 << 20
)

// Open opens or creates the journal and returns the Moves that an earlier run left. A damaged last line, as a crash leaves one,
// is dropped and logged. Damage anywhere else is an error, as is a journal that is not a regular file or is too long.
func Open(path string, log *slog.Logger) (*File, []model.Move, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, nil, fmt.Errorf("journal: %w; create this state_dir or choose another", err)
	}
	f, err := openRegular(path)
	if err != nil {
		return nil, nil, fmt.Errorf("journal: %w", err)
	}
	j := &File{path: path, file: f, create: create, rewrite: minRewrite}
	dropped, err := j.read()
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("journal %s: %w; move it away to start without it, then run `sluice fsck`", path, err)
	}
	if dropped != nil {
		log.Warn("the last line of the journal is damaged and was dropped; if it was about a move, the next observation of the host shows "+
			"what is to be repaired", "journal", path, "error", dropped)
	}
	return j, slices.Clone(j.open), nil
}

// openRegular opens a regular file. It refuses what would block or never end: a FIFO, a device, a socket.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, 0o640)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	switch {
	case err != nil:
	case !st.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file (%s); remove it", path, st.Mode().Type())
	case st.Size() > maxJournal:
		err = fmt.Errorf("%s has %d bytes, and a journal has at most %d; move it away to start without it, then run `sluice fsck`", path,
			st.Size(), maxJournal)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// read reads the file. dropped is what was wrong with the last line.
func (j *File) read() (dropped, err error) {
	sc := bufio.NewScanner(j.file)
	sc.Buffer(nil, maxLine)
	sc.Split(wholeLines)
	n := 1
	for ; sc.Scan(); n++ {
		if dropped != nil {
			return nil, dropped // a crash does not damage a line that others follow
		}
		e, err := decodeLine(sc.Bytes())
		if err != nil {
			dropped, j.torn = fmt.Errorf("line %d: %w", n, err), true
			continue
		}
		j.good += int64(len(sc.Bytes()))
		if e.Begin != nil {
			j.open = append(j.open, *e.Begin)
		}
		if e.End != nil {
			j.drop(*e.End)
		}
	}
	if errors.Is(sc.Err(), bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d has more than %d bytes", n, maxLine)
	}
	return dropped, sc.Err()
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encodeLine(e entry) ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	line := fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(text, castagnoli), text)
	if len(line) > maxLine {
		return nil, fmt.Errorf("a line of %d bytes is longer than the %d that can be read back", len(line), maxLine)
	}
	return line, nil
}

func decodeLine(line []byte) (entry, error) {
	text, whole := bytes.CutSuffix(line, []byte("\n"))
	if !whole {
		return entry{}, errors.New("it is incomplete")
	}
	sum, text, _ := bytes.Cut(text, []byte(" "))
	if want := fmt.Sprintf("%08x", crc32.Checksum(text, castagnoli)); string(sum) != want {
		return entry{}, errors.New("its checksum is wrong")
	}
	var e entry
	err := json.Unmarshal(text, &e)
	return e, err
}

// wholeLines is bufio.ScanLines, but keeps the newline, which shows that a line is complete.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// Begin implements executor.Journal.
func (j *File) Begin(m model.Move) error {
	if err := j.write(entry{Begin: &m}, j.file.Sync); err != nil {
		return err
	}
	j.open = append(j.open, m)
	return nil
}

// End implements executor.Journal.
func (j *File) End(m model.Move) error {
	j.drop(m)
	if len(j.open) == 0 {
		return j.cut(0)
	}
	if j.good > j.rewrite && j.writeAnew() == nil {
		return nil
	}
	return j.write(entry{End: &model.Move{Kind: m.Kind, VM: m.VM, VF: m.VF}}, nil)
}

// Close closes the file; its open Moves stay in it.
func (j *File) Close() error { return j.file.Close() }

// write appends a line. It first cuts off the remains of a failed write: a line after half a line would be lost with it, and the
// journal refused at the next start.
func (j *File) write(e entry, sync func() error) error {
	b, err := encodeLine(e)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if j.torn {
		if err := j.cut(j.good); err != nil {
			return err
		}
	}
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

// writeAnew replaces the file by one with only the open Moves. A crash or failure before the rename leaves the old file in use.
func (j *File) writeAnew() error {
	temp := j.path + ".new"
	f, err := j.create(temp)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	fresh := File{file: f}
	for i := range j.open {
		err = errors.Join(err, fresh.write(entry{Begin: &j.open[i]}, nil))
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(temp, j.path)
	}
	j.rewrite = max(minRewrite, 2*j.good) // after a failure, do not retry at every End
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("journal: %w", err)
	}
	old := j.file
	defer old.Close() // replaced by the rename, whatever follows
	j.file, j.good, j.torn = f, fresh.good, false
	j.rewrite = max(minRewrite, 2*j.good)
	if err := statefile.SyncDir(filepath.Dir(j.path)); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

func create(path string) (file, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o640)
}

// cut truncates the file at a position.
func (j *File) cut(at int64) error {
	if err := j.file.Truncate(at); err != nil {
		return fmt.Errorf("cut the journal at byte %d: %w", at, err)
	}
	j.good, j.torn = at, false
	return nil
}

func (j *File) drop(m model.Move) {
	i := slices.IndexFunc(j.open, func(o model.Move) bool { return o.VM == m.VM && o.VF == m.VF })
	if i >= 0 {
		j.open = slices.Delete(j.open, i, i+1)
	}
}

var _ executor.Journal = (*File)(nil)
