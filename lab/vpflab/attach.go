package vpflab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"sluice/lab/cache"
)

// record is how another process finds a lab.
type record struct {
	Dir       string
	Pid       int
	Artifacts string
}

func recordPath() (string, error) {
	dir, err := cache.Dir()
	return filepath.Join(dir, "vpf", "up.json"), err
}

// Publish lets other processes attach to this lab while it is open.
func (h *Host) Publish() error {
	path, err := recordPath()
	if err != nil {
		return err
	}
	data, err := json.Marshal(record{h.dir, h.pid, h.ArtifactDir})
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// Attach connects to the lab that another process has published. That process closes it; the caller calls Release.
func Attach() (*Host, error) {
	path, err := recordPath()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errors.New("no lab is up; `labctl vpf up` starts one")
	}
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if _, err := os.Stat(r.Dir); err != nil || syscall.Kill(r.Pid, 0) != nil {
		return nil, errors.New("the lab that was up has ended; `labctl vpf up` starts another")
	}
	return &Host{ArtifactDir: r.Artifacts, dir: r.Dir, pid: r.Pid, agents: map[string]*agent{}}, nil
}
