package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sluice/internal/base/input"
	"sluice/internal/base/statefile"
	"sluice/internal/model"
)

// Journal records the VFs that a measurement has set aside, and their previous state. It is written before any change and removed once
// everything is restored; until then, even after kill -9, the VFs stay set aside.
type Journal struct {
	Version int       `json:"version"`
	PID     int       `json:"pid"`
	PF      string    `json:"pf"`
	Switch  string    `json:"switch,omitempty"` // that representors are made ports of
	VFs     []Found   `json:"vfs"`
	Filters model.MAC `json:"filters"` // prefix of all MACs that the measurement makes up
}

// Found is a VF in its previous state.
type Found struct {
	model.VF
	Override string `json:"driver_override,omitempty"`
	Alone    bool   `json:"representor_alone,omitempty"` // its representor was no port of anything
	Down     bool   `json:"representor_down,omitempty"`  // its representor was down
}

const (
	journalVersion = 1
	maxJournal     = 1 << 20
	prefixBytes    = 4 // of Filters
)

// made reports whether a MAC was made up for this measurement.
func (j *Journal) made(mac model.MAC) bool {
	return [prefixBytes]byte(mac[:]) == [prefixBytes]byte(j.Filters[:])
}

// JournalPath returns the path of a host's journal, a host being a network namespace: all of its daemons look there. A reboot, which
// recreates all VFs, removes it.
func JournalPath(runDir string, namespace uint64) string {
	return filepath.Join(runDir, fmt.Sprintf("qualify-%d.json", namespace))
}

// ReadJournal reads the journal. It returns nil if there is none.
func ReadJournal(path string) (*Journal, error) {
	text, err := input.Read(path, maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	j := &Journal{}
	if err == nil {
		err = json.Unmarshal(text, j)
	}
	if err == nil && j.Version != journalVersion {
		err = fmt.Errorf("its version is %d, and this program reads version %d", j.Version, journalVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("read what `sluice qualify` set aside: %s: %w", path, err)
	}
	return j, nil
}

func (j *Journal) write(path string) error {
	text, err := json.MarshalIndent(j, "", "  ")
	if err == nil {
		err = statefile.Replace(path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("record what is set aside: %w; %s", err, statefile.Remedy(filepath.Dir(path), err))
	}
	return nil
}

// Running reports whether the measurement of a journal is still running.
func Running(path string) bool {
	if _, err := os.Stat(lockPath(path)); err != nil {
		return false
	}
	f, err := statefile.Lock(lockPath(path))
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, statefile.ErrLocked)
}

func lockPath(path string) string { return path + ".lock" }

// lock is held during a measurement or restoration.
func lock(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // the socket's directory too
		return nil, err
	}
	f, err := statefile.Lock(lockPath(path))
	if errors.Is(err, statefile.ErrLocked) {
		return nil, fmt.Errorf("another `sluice qualify` is running on this host (%w): wait until it has ended", err)
	}
	return f, err
}
