package vpflab

import (
	"errors"
	"os"
	"syscall"

	"sluice/lab"
	"sluice/lab/cache"
)

// upFile names the published lab in the cache.
const upFile = "vpf/up.json"

// record is how another process finds a lab.
type record struct {
	Dir       string
	Pid       int
	Artifacts string
}

// Publish lets other processes attach to this lab while it is open.
func (h *Host) Publish() error {
	return cache.Remember(upFile, record{h.dir, h.pid, h.ArtifactDir})
}

// Attach connects to the lab that another process has published. That process closes it; the caller calls Release.
func Attach() (*Host, error) {
	var r record
	if err := cache.Recall(upFile, &r, "labctl vpf up"); err != nil {
		return nil, err
	}
	if _, err := os.Stat(r.Dir); err != nil || syscall.Kill(r.Pid, 0) != nil {
		return nil, errors.New("the lab that was up has ended; `labctl vpf up` starts another")
	}
	return &Host{ArtifactDir: r.Artifacts, dir: r.Dir, pid: r.Pid, agents: map[string]*lab.GuestAgent{}}, nil
}
