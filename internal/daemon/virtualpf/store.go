package virtualpf

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"sluice/internal/base/input"
	"sluice/internal/base/statefile"
	"sluice/internal/control/vpf"
)

// FileName is the name of the state file in the daemon's state_dir.
const FileName = "vpf.json"

// maxFile bounds the size of the file. A virtual VF takes about 300 bytes, or 2 kB with every setting used.
const maxFile = 64 << 20

const fileVersion = 1

// file is the content of the file. The checksum is there because a flipped bit in a policy could open a port.
type file struct {
	Version int             `json:"version"`
	SHA256  string          `json:"sha256"` // of State, without white space
	State   json.RawMessage `json:"state"`
}

// Store keeps the State in a file. Its only writer is the daemon that holds the lock on state_dir.
type Store struct {
	path string

	changing sync.Mutex // serializes changes up to the write to disk
	now      atomic.Pointer[vpf.State]

	waiting chan []*update // holds the guests' edits that are not written yet
	one     chan struct{}  // held by the goroutine that writes them
	pace    *rate.Limiter
}

// OpenStore reads the file. If there is none, nothing is defined. It writes nothing.
func OpenStore(path string) (*Store, error) {
	s := &Store{
		path: path, waiting: make(chan []*update, 1), one: make(chan struct{}, 1),
		pace: rate.NewLimiter(writesPerSecond, writesAtOnce),
	}
	s.waiting <- nil
	s.now.Store((&vpf.State{}).Clone())
	text, err := input.Read(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	var kept *vpf.State
	if err == nil {
		kept, err = decode(text)
	}
	if err != nil {
		return nil, fmt.Errorf("virtual PFs: %s: %w; restore it from a backup, or move it away: then nothing is defined, "+
			"the virtual PFs of running VMs lose their links, and `sluice vpf define` creates them again", path, err)
	}
	s.now.Store(kept)
	return s, nil
}

func decode(text []byte) (*vpf.State, error) {
	var f file
	if err := strictly(text, &f); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	if f.Version != fileVersion {
		return nil, fmt.Errorf("it has version %d, and this program reads version %d: start the version of sluiced that wrote it",
			f.Version, fileVersion)
	}
	sum, err := checksum(f.State)
	if err == nil && sum != f.SHA256 {
		err = errors.New("its checksum does not match")
	}
	s := &vpf.State{}
	if err == nil {
		err = strictly(f.State, s)
	}
	if err == nil {
		err = s.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	return s.Clone(), nil
}

// strictly decodes a single JSON value. It rejects unknown fields and trailing data.
func strictly(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if d.More() {
		return errors.New("there is more after its end")
	}
	return nil
}

func checksum(state []byte) (string, error) {
	var plain bytes.Buffer
	err := json.Compact(&plain, state)
	sum := sha256.Sum256(plain.Bytes())
	return hex.EncodeToString(sum[:]), err
}

func encode(s *vpf.State) ([]byte, error) {
	state, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	f := file{Version: fileVersion, State: state}
	if f.SHA256, err = checksum(state); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(f, "", " ")
	return append(text, '\n'), err
}

// State returns the current State, which must not be changed.
func (s *Store) State() *vpf.State { return s.now.Load() }

// Update applies edit to a copy of the State, which is on disk when Update returns. If edit or the write fails, nothing changes.
func (s *Store) Update(edit func(*vpf.State) error) (*vpf.State, error) {
	e := &update{edit: edit}
	s.write([]*update{e})
	return e.state, e.err
}

// UpdateSoon is Update for the requests of guests. It writes edits that arrive while another one waits in one batch, so that all guests
// together cause no more than writesPerSecond in the long run.
func (s *Store) UpdateSoon(edit func(*vpf.State) error) (*vpf.State, error) {
	e := &update{edit: edit, done: make(chan struct{})}
	waiting := append(<-s.waiting, e)
	s.waiting <- waiting
	if len(waiting) == 1 { // the first writes for all
		s.one <- struct{}{}
		_ = s.pace.Wait(context.Background()) // the background context never ends
		batch := <-s.waiting
		s.waiting <- nil
		s.write(batch)
		<-s.one
		for _, e := range batch {
			close(e.done)
		}
	}
	<-e.done
	return e.state, e.err
}

// update is an edit and its result.
type update struct {
	edit  func(*vpf.State) error
	done  chan struct{}
	state *vpf.State
	err   error
}

// write applies the edits that succeed, and saves them in a single write.
func (s *Store) write(batch []*update) {
	s.changing.Lock()
	defer s.changing.Unlock()
	next := s.State()
	var good []*update
	for _, e := range batch {
		to := next.Clone()
		if e.err = e.edit(to); e.err == nil {
			e.err = to.Check()
		}
		if e.err == nil {
			next, good = to, append(good, e)
		}
	}
	if len(good) == 0 {
		return
	}
	next.Rev++
	err := s.save(next)
	for _, e := range good {
		if e.err = err; err == nil {
			e.state = next
		}
	}
}

// save saves a State and makes it the current one.
func (s *Store) save(next *vpf.State) error {
	text, err := encode(next)
	if err != nil {
		return err
	}
	if err := statefile.Replace(s.path, text); err != nil {
		return fmt.Errorf("it cannot be saved in %s: %w; %s", s.path, err, statefile.Remedy(filepath.Dir(s.path), err))
	}
	s.now.Store(next)
	return nil
}
