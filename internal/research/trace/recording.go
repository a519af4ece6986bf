package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"sluice/internal/base/input"
	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// Sample is one Snapshot of a recording and the moves that had ended by then.
type Sample struct {
	Snapshot *model.Snapshot // the caller's to keep
	Decided  time.Time       // when the daemon decided on it
	Moves    []model.MoveStatus
}

// Recording reads a recording from start to end, with one sample in memory at a time.
type Recording struct {
	Report Report
	rules  *model.Rules
	memory json.RawMessage

	files []string
	file  *os.File
	in    *bufio.Reader
	line  int
	last  *model.Snapshot
}

// maxLine bounds one line, which may be a whole Snapshot of thousands of VMs.
const maxLine = 64 << 20

// OpenRecording opens the directory of a Recorder, or a file in it.
func OpenRecording(path string) (*Recording, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	r := &Recording{files: []string{path}, Report: Report{File: path, Format: "Sluice recording"}}
	if st.IsDir() {
		if r.files, err = recordingFiles(path); err != nil {
			return nil, err
		}
		if len(r.files) == 0 {
			return nil, &Error{File: path, Text: "contains no recording", Remedy: "make one with `sluice record`"}
		}
	}
	return r, nil
}

// Rules returns the rules in force at the last sample read; nil if not recorded.
func (r *Recording) Rules() *model.Rules { return r.rules }

// Memory returns what the daemon knew before the first sample of the present file; nil if not recorded.
func (r *Recording) Memory() json.RawMessage { return r.memory }

// Close ends reading.
func (r *Recording) Close() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}

// Next returns the next sample, io.EOF after the last. A missing end is counted in the Report and ends its file; anything else that
// cannot be read is an error.
func (r *Recording) Next() (*Sample, error) {
	for {
		if r.file == nil {
			if len(r.files) == 0 {
				return nil, io.EOF
			}
			if err := r.open(); err != nil {
				return nil, err
			}
			continue // an incomplete header closes the file again
		}
		line, err := r.read()
		if err != nil {
			return nil, err
		}
		if line == nil {
			continue
		}
		return r.sample(line)
	}
}

func (r *Recording) name() string { return r.file.Name() }

// open opens the next file and reads its header.
func (r *Recording) open() error {
	f, err := input.Open(r.files[0])
	if err != nil {
		return fileError(r.files[0], err)
	}
	r.files, r.file, r.line, r.last = r.files[1:], f, 0, nil
	in, err := plain(f.Name(), f)
	if err != nil {
		return r.tear()
	}
	r.in = in
	line, err := r.read()
	if line == nil || err != nil {
		return err
	}
	if !strings.HasPrefix(string(line), magic) {
		return &Error{File: f.Name(), Line: 1, Col: 1, Text: "is not a recording of Sluice", Remedy: "make one with `sluice record`"}
	}
	var h header
	if err := json.Unmarshal(line, &h); err != nil {
		return r.bad(err)
	}
	if h.Version > version {
		return &Error{
			File: f.Name(), Line: 1, Col: 1, Text: fmt.Sprintf("has version %d of the format", h.Version),
			Remedy: "read it with the Sluice that wrote it, or a newer one",
		}
	}
	r.rules, r.memory = h.Rules, h.Memory
	return nil
}

// read returns the next line; nil at the end of the file, complete or not.
func (r *Recording) read() ([]byte, error) {
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			r.line++
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
			if len(line) > maxLine {
				return nil, &Error{File: r.name(), Line: r.line + 1, Col: 1, Text: "the line is too long for a recording"}
			}
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil, r.Close()
		default: // a crash ends a file without its checksum, usually within a line
			return nil, r.tear()
		}
	}
}

func (r *Recording) tear() error {
	r.Report.add(KindTorn, func() string { return fmt.Sprintf("%s after line %d", r.name(), r.line) })
	return r.Close()
}

func (r *Recording) bad(err error) error {
	return &Error{
		File: r.name(), Line: r.line, Col: 1, Text: "cannot be read: " + err.Error(), Remedy: "remove this file from the recording",
		cause: err,
	}
}

// sample decodes one line.
func (r *Recording) sample(line []byte) (*Sample, error) {
	var e entry
	if err := json.Unmarshal(line, &e); err != nil {
		return nil, r.bad(err)
	}
	s, err := apply(r.last, &e)
	if err != nil {
		return nil, r.bad(err)
	}
	r.Report.Rows++
	r.Report.VMs = max(r.Report.VMs, len(s.VMs))
	r.last = s
	if e.Decided.IsZero() {
		e.Decided = s.Time
	}
	return &Sample{Snapshot: sim.Copy(s), Decided: e.Decided, Moves: e.Moves}, nil
}
