package trace

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sluice/internal/model"
	"sluice/internal/research/sim"
)

// magic begins every file of a recording, inside its compression.
const magic = `{"sluice":"recording"`

// version of the format. A reader refuses newer ones.
const version = 1

// header is the first line of a file.
type header struct {
	Sluice  string       `json:"sluice"`
	Version int          `json:"version"`
	Rules   *model.Rules `json:"rules,omitempty"` // in force from here on
	// Memory is what the daemon knew just before the first sample, as it wrote it.
	Memory json.RawMessage `json:"memory,omitempty"`
}

// entry is any further line: what changed since the line before. The first entry of a file is a whole Snapshot.
type entry struct {
	Time     time.Time          `json:"t"`
	Decided  time.Time          `json:"d,omitzero"` // when the daemon decided on it
	Whole    bool               `json:"whole,omitempty"`
	PFs      []model.PF         `json:"pfs,omitempty"`
	VMs      []model.VM         `json:"vms,omitempty"`  // new or changed beyond their load
	Gone     []model.VMID       `json:"gone,omitempty"` // VMs and, by name, PFs
	GonePFs  []string           `json:"gone_pfs,omitempty"`
	Loads    []load             `json:"l,omitempty"`
	Problems []model.Problem    `json:"problems,omitempty"`
	Moves    []model.MoveStatus `json:"moves,omitempty"` // ended since
}

// load is what changes with nearly every sample: a VM (by its index in the Snapshot), its CPU use, and the eight rates of each NIC.
type load struct {
	I int          `json:"i"`
	C float64      `json:"c"`
	N [][8]float64 `json:"n"`
}

// RecorderOptions bound a recording.
type RecorderOptions struct {
	MaxFile  int64 // bytes after which a new file begins; 0: 16 MiB
	MaxFiles int   // the oldest are removed beyond this; 0: 16
}

// Recorder writes Snapshots to files DIR/000001.slr.gz and so on. Every line is flushed, so that a crash costs at most the line being
// written. It is not safe for concurrent use.
type Recorder struct {
	dir  string
	opts RecorderOptions
	seq  int

	rules   *model.Rules
	memory  json.RawMessage
	file    *os.File
	size    int64 // bytes written to file
	zip     *gzip.Writer
	enc     *json.Encoder
	last    *model.Snapshot
	moved   time.Time // end of the newest move written
	without int       // files begun without memory
}

// NewRecorder makes a Recorder that adds files to a directory.
func NewRecorder(dir string, o RecorderOptions) (*Recorder, error) {
	o.MaxFile = cmp.Or(max(0, o.MaxFile), 16<<20)
	o.MaxFiles = cmp.Or(max(0, o.MaxFiles), 16)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fileError(dir, err)
	}
	files, err := recordingFiles(dir)
	if err != nil {
		return nil, err
	}
	r := &Recorder{dir: dir, opts: o}
	if len(files) > 0 {
		_, _ = fmt.Sscanf(filepath.Base(files[len(files)-1]), "%d", &r.seq) // 0 for a foreign name
	}
	return r, nil
}

const suffix = ".slr.gz"

// recordingFiles lists the files of a recording, oldest first.
func recordingFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fileError(dir, err)
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), suffix) {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	slices.SortFunc(out, compareNames)
	return out, nil
}

// SetRules notes the rules in force from now on. Every file begins with them.
func (r *Recorder) SetRules(rules model.Rules) error {
	same := r.rules != nil && sameJSON(*r.rules, rules)
	r.rules = &rules
	if same || r.file == nil {
		return nil
	}
	return r.Close() // the next file begins with them
}

// Fresh reports whether the next sample begins a file, so that SetMemory takes effect.
func (r *Recorder) Fresh() bool { return r.file == nil }

// SetMemory notes what the daemon knows before the next sample. It is recorded only if a file begins with that sample.
func (r *Recorder) SetMemory(memory json.RawMessage) { r.memory = memory }

// WithoutMemory is the number of files that began without the daemon's memory. Alone they cannot be replayed as the daemon decided.
func (r *Recorder) WithoutMemory() int { return r.without }

func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// RecordView records a View: its Snapshot, its rules and the moves that ended.
func (r *Recorder) RecordView(v *model.View) error {
	if v.Snapshot == nil {
		return nil
	}
	s := model.Sample{Snapshot: v.Snapshot, Rules: v.Rules, Decided: v.Snapshot.Time}
	if v.Target != nil {
		s.Decided = v.Target.Time
	}
	return r.RecordSample(s, v.Recent)
}

// RecordSample records a Sample and the moves that ended, of which the newest is the first. It knows those that it has recorded.
func (r *Recorder) RecordSample(s model.Sample, recent []model.MoveStatus) error {
	if err := r.SetRules(s.Rules); err != nil {
		return err
	}
	var ended []model.MoveStatus
	known := r.moved // several may end at the same time
	for _, m := range slices.Backward(recent) {
		if m.Ended.After(known) {
			r.moved = m.Ended
			m.Move.Steps = nil // they follow from the Move's kind
			ended = append(ended, m)
		}
	}
	return r.write(s.Snapshot, s.Decided, ended)
}

// Record records a Snapshot unless it is not newer than the last.
func (r *Recorder) Record(s *model.Snapshot) error { return r.write(s, s.Time, nil) }

func (r *Recorder) write(s *model.Snapshot, decided time.Time, moves []model.MoveStatus) error {
	if r.last != nil && !s.Time.After(r.last.Time) && len(moves) == 0 {
		return nil
	}
	if r.file == nil {
		if err := r.begin(); err != nil {
			return err
		}
	}
	e := changes(r.last, s)
	e.Decided, e.Moves = decided, moves
	if err := r.enc.Encode(e); err != nil {
		return r.broken(err)
	}
	if err := r.zip.Flush(); err != nil {
		return r.broken(err)
	}
	r.last = sim.Copy(s)
	if r.size >= r.opts.MaxFile {
		return r.Close()
	}
	return nil
}

// broken gives up the file: the next Record begins a new one.
func (r *Recorder) broken(err error) error {
	name := r.file.Name()
	_ = r.file.Close()
	r.file, r.last = nil, nil
	return fileError(name, err)
}

// begin opens the next file and removes the oldest ones.
func (r *Recorder) begin() error {
	r.seq++
	name := filepath.Join(r.dir, fmt.Sprintf("%06d%s", r.seq, suffix))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640) //nolint:gosec // readable by the group of the daemon
	if err != nil {
		return fileError(name, err)
	}
	r.file, r.size, r.last = f, 0, nil
	r.zip = gzip.NewWriter(counter{r})
	r.enc = json.NewEncoder(r.zip)
	if err := r.enc.Encode(header{Sluice: "recording", Version: version, Rules: r.rules, Memory: r.memory}); err != nil {
		return r.broken(err)
	}
	if r.memory == nil {
		r.without++
	}
	r.memory = nil
	return r.prune()
}

func (r *Recorder) prune() error {
	files, err := recordingFiles(r.dir)
	if err != nil {
		return err
	}
	for len(files) > r.opts.MaxFiles {
		if err := os.Remove(files[0]); err != nil {
			return fileError(files[0], err)
		}
		files = files[1:]
	}
	return nil
}

// Close ends the present file. Recording may continue afterwards, in a new file.
func (r *Recorder) Close() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	err := r.zip.Close()
	if e := f.Close(); err == nil {
		err = e
	}
	r.file, r.last = nil, nil
	if err != nil {
		return fileError(f.Name(), err)
	}
	return nil
}

// counter counts what reaches the file.
type counter struct{ r *Recorder }

// Write implements io.Writer.
func (c counter) Write(b []byte) (int, error) {
	n, err := c.r.file.Write(b)
	c.r.size += int64(n)
	return n, err
}
