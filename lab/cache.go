package lab

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
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

// sources is all that images are made of; its hash names them in the cache.
//
//go:embed recipe probe
var sources embed.FS

// keep is how many versions of each artefact stay in the cache, so that two
// checkouts do not undo each other's work.
const keep = 3

func cacheDir() (string, error) {
	if dir := os.Getenv("SLUICE_LAB_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "sluice-lab"), err
}

// hash is over the names and the contents of the sources under roots.
func hash(extra string, roots ...string) (string, error) {
	h := sha256.New()
	h.Write([]byte(extra))
	for _, root := range roots {
		err := fs.WalkDir(sources, root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := sources.ReadFile(path)
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

// image is where everything a lab boots from lies.
type image struct {
	dir  string // vmlinuz, initrd, disk.img, disk.qcow2, state, key
	tree string // root file system, home of QEMU
}

// Build makes the image and its snapshot unless the cache has them, and tells
// how it goes on progress. It takes minutes the first time.
func Build(ctx context.Context, progress io.Writer) error {
	_, err := build(ctx, progress)
	return err
}

func build(ctx context.Context, progress io.Writer) (image, error) {
	cache, err := cacheDir()
	if err != nil {
		return image{}, err
	}
	rootfsHash, err := hash("", "recipe/rootfs", "recipe/packages", "recipe/fix-qemu")
	if err != nil {
		return image{}, err
	}
	// The machine's own arguments shape the snapshot as much as the recipe.
	shape := strings.Join((&machine{}).args(""), " ")
	imageHash, err := hash(rootfsHash+shape, "recipe", "probe")
	if err != nil {
		return image{}, err
	}
	rootfs := filepath.Join(cache, "rootfs-"+rootfsHash)
	img := image{dir: filepath.Join(cache, imageHash), tree: filepath.Join(rootfs, "tree")}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return image{}, err
	}
	if exists(img.dir) && exists(rootfs) {
		touch(img.dir, rootfs)
		return img, nil
	}

	unlock, err := lock(ctx, filepath.Join(cache, "lock"), progress)
	if err != nil {
		return image{}, err
	}
	defer unlock()
	err = once(rootfs, func(tmp string) error {
		say(progress, "building the root file system (about 2 minutes)")
		return recipe(ctx, tmp, "rootfs", tmp)
	})
	if err != nil {
		return image{}, err
	}
	err = once(img.dir, func(tmp string) error {
		say(progress, "building the image")
		if err := recipe(ctx, tmp, "build", rootfs, tmp, filepath.Join(tmp, "sources/probe")); err != nil {
			return err
		}
		room, err := slot(ctx, progress)
		if err != nil {
			return err
		}
		defer room.Close()
		return snapshot(ctx, image{dir: tmp, tree: img.tree}, progress)
	})
	if err != nil {
		return image{}, err
	}
	prune(cache)
	return img, nil
}

// once makes dir by way of a temporary one, so that it is there whole or not.
func once(dir string, make func(tmp string) error) error {
	if exists(dir) {
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
		return err // tmp stays, for whoever looks for the cause
	}
	return os.Rename(tmp, dir)
}

// recipe runs a script of the embedded sources, unpacked in dir.
func recipe(ctx context.Context, dir, script string, args ...string) error {
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

// lock holds path against other processes until the returned function is called.
func lock(ctx context.Context, path string, progress io.Writer) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	told := false
	err = wait(ctx, time.Hour, "lock on "+path, func() (bool, error) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != nil && !told {
			told = true
			say(progress, "waiting for another process that builds the lab")
		}
		return err == nil, err
	})
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// slot waits until this machine has room for one more lab. The lock lasts until
// every descriptor of the file is closed, QEMU's too.
func slot(ctx context.Context, progress io.Writer) (*os.File, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	// A lab keeps one CPU busy, and its test needs some of another.
	room, err := strconv.Atoi(os.Getenv("SLUICE_LAB_SLOTS"))
	if err != nil || room < 1 {
		room = max(1, runtime.NumCPU()/2)
	}
	var got *os.File
	told := false
	err = wait(ctx, time.Hour, "room for another lab", func() (bool, error) {
		for i := range room {
			f, err := os.OpenFile(filepath.Join(cache, fmt.Sprintf("slot-%d", i)), os.O_CREATE|os.O_RDWR, 0o644)
			if err != nil {
				return false, fatal(err)
			}
			if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
				got = f
				return true, nil
			}
			f.Close()
		}
		if !told {
			told = true
			say(progress, "waiting for another lab on this machine to end (SLUICE_LAB_SLOTS=%d)", room)
		}
		return false, nil
	})
	return got, err
}

// prune drops all but the newest versions.
func prune(cache string) {
	var rootfs, images []string
	entries, _ := os.ReadDir(cache)
	for _, e := range entries {
		switch name := e.Name(); {
		case !e.IsDir() || strings.HasSuffix(name, ".tmp"):
		case strings.HasPrefix(name, "rootfs-"):
			rootfs = append(rootfs, filepath.Join(cache, name))
		case exists(filepath.Join(cache, name, "disk.img")):
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

func touch(paths ...string) {
	now := time.Now()
	for _, path := range paths {
		_ = os.Chtimes(path, now, now) // only tells prune what is in use
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func say(progress io.Writer, format string, args ...any) {
	if progress != nil {
		fmt.Fprintf(progress, "lab: "+format+"\n", args...)
	}
}
