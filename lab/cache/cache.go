// Package cache keeps what the labs are built from, under the hash of its recipe. Each artefact is built once, in a temporary directory
// and under a lock, and is shared by all labs on this machine.
package cache

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// keep is how many versions of each artefact stay in the cache, so that two checkouts do not evict each other's.
const keep = 3

// Dir returns the cache's directory.
func Dir() (string, error) {
	if dir := os.Getenv("SLUICE_LAB_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "sluice-lab"), err
}

// Hash covers the names and contents of the sources under roots, and extra.
func Hash(sources fs.FS, extra string, roots ...string) (string, error) {
	h := sha256.New()
	h.Write([]byte(extra))
	for _, root := range roots {
		err := fs.WalkDir(sources, root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := fs.ReadFile(sources, path)
			fmt.Fprintf(h, "%s %d\n", path, len(data))
			h.Write(data)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// Once creates dir through a temporary directory, so that it exists completely or not at all.
func Once(dir string, make func(tmp string) error) error {
	if Exists(dir) {
		return nil
	}
	tmp := dir + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return err
	}
	if err := make(tmp); err != nil {
		return err // keep tmp for diagnosis
	}
	return os.Rename(tmp, dir)
}

// Ensure marks these paths of one directory as in use or, unless all exist, calls build under the directory's lock.
func Ensure(ctx context.Context, progress io.Writer, build func() error, paths ...string) error {
	if !slices.ContainsFunc(paths, func(path string) bool { return !Exists(path) }) {
		now := time.Now()
		for _, path := range paths {
			_ = os.Chtimes(path, now, now) // only Prune uses the times
		}
		return nil
	}
	dir := filepath.Dir(paths[0])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	unlock, err := lock(ctx, filepath.Join(dir, "lock"), progress)
	if err != nil {
		return err
	}
	defer unlock()
	return build()
}

// Remember stores what another process needs to find a lab that is up, in a file of the cache.
func Remember(name string, record any) error {
	path, err := recordPath(name)
	if err != nil {
		return err
	}
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// Recall reads what Remember has stored; start is the command that starts such a lab.
func Recall(name string, record any, start string) error {
	path, err := recordPath(name)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("no lab is up; `%s` starts one", start)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, record); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Forget removes what Remember has stored.
func Forget(name string) {
	if path, err := recordPath(name); err == nil {
		os.Remove(path)
	}
}

func recordPath(name string) (string, error) {
	dir, err := Dir()
	return filepath.Join(dir, name), err
}

// Recipe runs a script of recipe/ in the sources, which it unpacks in dir.
func Recipe(ctx context.Context, sources fs.FS, dir, script string, args ...string) error {
	unpacked := filepath.Join(dir, "sources")
	if err := os.RemoveAll(unpacked); err != nil {
		return err
	}
	if err := os.CopyFS(unpacked, sources); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "bash", append([]string{filepath.Join(unpacked, "recipe", script)}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("recipe/%s: %w\n%s", script, err, out)
	}
	return nil
}

// lock locks path against other processes until the returned function is called.
func lock(ctx context.Context, path string, progress io.Writer) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	told := false
	err = retry(ctx, "lock on "+path, func() (bool, error) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != nil && !told {
			told = true
			Say(progress, "waiting for another process that builds the lab")
		}
		return err == nil, nil
	})
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// retry calls try until it succeeds or fails, for at most an hour.
func retry(ctx context.Context, what string, try func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	for {
		if done, err := try(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// Slot waits until this machine has room for one more lab. The lock lasts until every descriptor of the file is closed, including
// QEMU's.
func Slot(ctx context.Context, progress io.Writer) (*os.File, error) {
	got, err := slots(ctx, progress, 1)
	if err != nil {
		return nil, err
	}
	return got[0], nil
}

// AllSlots waits until no other lab runs on this machine, and keeps others from starting.
func AllSlots(ctx context.Context, progress io.Writer) ([]*os.File, error) {
	return slots(ctx, progress, room())
}

// room returns how many labs may run at once.
func room() int {
	n, err := strconv.Atoi(os.Getenv("SLUICE_LAB_SLOTS"))
	if err != nil || n < 1 {
		n = max(1, runtime.NumCPU()/2) // a lab keeps one CPU busy, and its test uses part of another
	}
	return n
}

// slots waits for n slots. Only one caller at a time collects them: otherwise, single slots would always be taken before somebody has
// all, and two callers that want all would deadlock.
func slots(ctx context.Context, progress io.Writer, n int) (got []*os.File, err error) {
	cache, err := Dir()
	if err != nil {
		return nil, err
	}
	told := false
	// take takes the first free lock of these, and waits while there is none.
	take := func(names ...string) (f *os.File, err error) {
		err = retry(ctx, "room for another lab", func() (bool, error) {
			for _, name := range names {
				if f, err = os.OpenFile(filepath.Join(cache, name), os.O_CREATE|os.O_RDWR, 0o644); err != nil {
					return false, err
				}
				if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
					return true, nil
				}
				f.Close()
			}
			if !told {
				told = true
				Say(progress, "waiting for other labs on this machine to end (SLUICE_LAB_SLOTS=%d)", room())
			}
			return false, nil
		})
		return f, err
	}
	all := make([]string, room())
	for i := range all {
		all[i] = fmt.Sprintf("slot-%d", i)
	}
	collecting, err := take("slots")
	if err != nil {
		return nil, err
	}
	defer collecting.Close()
	for range n {
		f, err := take(all...)
		if err != nil {
			Close(got)
			return nil, err
		}
		got = append(got, f)
	}
	return got, nil
}

// Close closes files.
func Close(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// Prune removes all but the newest versions in dir: of rootfs-*, and of directories with a disk.img.
func Prune(cache string) {
	var rootfs, images []string
	entries, _ := os.ReadDir(cache)
	for _, e := range entries {
		switch name := e.Name(); {
		case !e.IsDir() || strings.HasSuffix(name, ".tmp"):
		case strings.HasPrefix(name, "rootfs-"):
			rootfs = append(rootfs, filepath.Join(cache, name))
		case Exists(filepath.Join(cache, name, "disk.img")):
			images = append(images, filepath.Join(cache, name))
		}
	}
	for _, dirs := range [][]string{rootfs, images} {
		slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(modified(b), modified(a)) })
		for _, dir := range dirs[min(keep, len(dirs)):] {
			os.RemoveAll(dir)
		}
	}
}

func modified(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.ModTime().UnixNano()
}

// Exists reports whether path exists.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Say writes a line to progress, unless that is nil.
func Say(progress io.Writer, format string, args ...any) {
	if progress != nil {
		fmt.Fprintf(progress, "lab: "+format+"\n", args...)
	}
}
