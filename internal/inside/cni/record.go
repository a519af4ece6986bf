package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/containernetworking/cni/pkg/types"

	"sluice/internal/base/sleep"
	"sluice/internal/base/statefile"
	"sluice/internal/channel"
)

// record describes what must be undone of an ADD.
type record struct {
	Network   string     `json:"network"`
	Container string     `json:"container"`
	IfName    string     `json:"ifname"`
	Netns     string     `json:"netns"`
	NetnsID   string     `json:"netns_id"` // distinguishes it from a later namespace at the same path
	BootID    string     `json:"boot_id"`
	Device    string     `json:"device"` // the VF's PCI address
	VF        channel.VF `json:"vf"`
	Netdev    string     `json:"netdev"` // original name of the interface
	MAC       string     `json:"mac"`    // original MAC of the interface
}

func (r *record) owner() string { return owner(r.Container, r.IfName) }

// path separates the two parts by a colon, since neither can contain one.
func (p *Plugin) path(container, ifname string) string {
	return filepath.Join(p.Dir, container+":"+ifname+".json")
}

// load returns the record, nil if there is none.
func (p *Plugin) load(container, ifname string) (*record, error) {
	return read(p.path(container, ifname))
}

func read(path string) (*record, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var r record
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return nil, types.NewError(types.ErrIOFailure, fmt.Sprintf("read the record of an ADD: %v", err), "")
	}
	return &r, nil
}

// records returns all records that can be read.
func (p *Plugin) records() (out []*record, err error) {
	paths, _ := filepath.Glob(filepath.Join(p.Dir, "*.json"))
	for _, path := range paths {
		r, e := read(path)
		err = errors.Join(err, e)
		if r != nil {
			out = append(out, r)
		}
	}
	return out, err
}

func (p *Plugin) save(r *record) error {
	b, err := json.Marshal(r)
	if err == nil {
		err = statefile.Replace(p.path(r.Container, r.IfName), b)
	}
	if err != nil {
		return types.NewError(types.ErrIOFailure, fmt.Sprintf("record the ADD: %v: %s", err, statefile.Remedy(p.Dir, err)), "")
	}
	return nil
}

func (p *Plugin) remove(r *record) error {
	err := os.Remove(p.path(r.Container, r.IfName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return types.NewError(types.ErrIOFailure, err.Error(), "")
	}
	return nil
}

var errLocked = types.NewError(types.ErrTryAgainLater, "another call of this plugin is using the device", "")

// lock keeps other calls of this plugin from the device. Plugins that it calls inherit the lock, so that one that is still running
// after this process was killed keeps holding it.
func (p *Plugin) lock(ctx context.Context, device string) (unlock func(), err error) {
	for {
		unlock, err := p.tryLock(device)
		if !errors.Is(err, errLocked) {
			return unlock, err
		}
		if sleep.For(ctx, pollEvery) != nil {
			return nil, fmt.Errorf("VF %s: %w", device, errLocked)
		}
	}
}

func (p *Plugin) tryLock(device string) (unlock func(), err error) {
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, types.NewError(types.ErrIOFailure, err.Error(), "")
	}
	// Without O_CLOEXEC, so that called plugins inherit the lock.
	fd, err := unix.Open(filepath.Join(p.Dir, strings.ReplaceAll(device, "/", "_")+".lock"), unix.O_CREAT|unix.O_RDWR, 0o600)
	if err == nil {
		if err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return func() { _ = unix.Close(fd) }, nil
		}
		_ = unix.Close(fd)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errLocked
	}
	return nil, types.NewError(types.ErrIOFailure, fmt.Sprintf("lock VF %s: %v", device, err), "")
}

// netnsID identifies a network namespace; "" if there is none at the path.
func netnsID(path string) string {
	var st unix.Stat_t
	if path == "" || unix.Stat(path, &st) != nil {
		return ""
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}
