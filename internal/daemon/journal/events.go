package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"sluice/internal/model"
)

// maxEvents bounds the file of events in bytes; a longer one becomes FILE.old, so that twice as much is kept. An event has about 400.
const maxEvents = 2 << 20

// Events keeps events beyond the end of the daemon, in lines like the journal's, each written at once. Unlike the journal it only
// informs: nothing is synced, what is damaged is skipped, and an error is logged.
type Events struct {
	path string
	log  *slog.Logger
	file file
	size int64
	torn bool // the file does not end with a whole line
	bad  bool // the last write failed, and that was logged
}

// OpenEvents opens or creates the file, and returns what earlier runs kept, oldest first with increasing IDs. If that does not work,
// the events of this run are not kept.
func OpenEvents(path string, log *slog.Logger) (*Events, []model.Event) {
	e := &Events{path: path, log: log}
	var list []model.Event
	for _, p := range []string{path + ".old", path} {
		var err error
		if list, err = e.read(list, p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Warn("some events of earlier runs are lost", "file", p, "error", err)
		}
	}
	if err := e.open(); err != nil {
		log.Warn("events will not be kept when the daemon ends", "error", err)
	}
	return e, list
}

// read appends the events of a file.
func (e *Events) read(list []model.Event, path string) ([]model.Event, error) {
	e.torn = false
	if _, err := os.Lstat(path); err != nil {
		return list, err
	}
	f, err := openRegular(path)
	if err != nil {
		return list, err
	}
	defer f.Close() // read only
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, maxLine)
	sc.Split(wholeLines)
	damaged := 0
	for sc.Scan() {
		line, err := decodeLine(sc.Bytes())
		e.torn = sc.Bytes()[len(sc.Bytes())-1] != '\n'
		if err != nil || line.Event == nil || len(list) > 0 && line.Event.ID <= list[len(list)-1].ID {
			damaged++
			continue
		}
		list = append(list, *line.Event)
	}
	err = sc.Err()
	if damaged > 0 {
		err = errors.Join(err, fmt.Errorf("%d damaged lines", damaged))
	}
	e.torn = e.torn || sc.Err() != nil
	return list, err
}

func (e *Events) open() error {
	if err := os.MkdirAll(filepath.Dir(e.path), 0o750); err != nil {
		return err
	}
	f, err := openRegular(e.path)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	e.file, e.size = f, st.Size()
	return nil
}

// Add appends an event.
func (e *Events) Add(event *model.Event) {
	if e.file == nil {
		return
	}
	err := e.write(event)
	if err != nil && !e.bad {
		e.log.Warn("events are not kept beyond the end of the daemon; make room on the disk", "file", e.path, "error", err)
	}
	e.bad = err != nil
}

func (e *Events) write(event *model.Event) error {
	b, err := encodeLine(entry{Event: event})
	if err != nil {
		return err
	}
	if e.torn { // what follows half a line would be lost with it
		b = append([]byte{'\n'}, b...)
	}
	n, err := e.file.Write(b)
	e.size += int64(n)
	if e.torn = err != nil && (n > 0 || e.torn); err != nil || e.size < maxEvents {
		return err
	}
	if err := os.Rename(e.path, e.path+".old"); err != nil {
		return err
	}
	old := e.file
	e.file = nil
	return errors.Join(old.Close(), e.open())
}

// Close closes the file.
func (e *Events) Close() error {
	if e.file == nil {
		return nil
	}
	return e.file.Close()
}
