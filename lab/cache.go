package lab

import (
	"context"
	"embed"
	"io"
	"os"
	"path/filepath"
	"strings"

	"sluice/lab/cache"
	"sluice/packaging/guest"
)

// sources is everything that images are built from; its hash names them in the cache.
//
//go:embed recipe probe
var sources embed.FS

// image is the directory of everything that a lab boots from.
type image struct {
	dir    string   // vmlinuz, initrd, disk.img, disk.qcow2, state, key
	tree   string   // root file system, home of QEMU
	guests []string // booted in the snapshot
}

// Build builds the image and its snapshot unless the cache has them, and reports to progress. It takes minutes the first time.
func Build(ctx context.Context, progress io.Writer) error {
	_, err := build(ctx, progress)
	return err
}

func build(ctx context.Context, progress io.Writer) (image, error) {
	dir, err := cache.Dir()
	if err != nil {
		return image{}, err
	}
	rootfs, err := rootfs()
	if err != nil {
		return image{}, err
	}
	// The machine's command line affects the snapshot as much as the recipe does.
	shape := strings.Join((&machine{}).args(""), " ")
	rootfsHash := strings.TrimPrefix(filepath.Base(rootfs), "rootfs-")
	files, err := cache.Hash(guest.Files, "", "bond") // the guests have neither udev nor systemd
	if err != nil {
		return image{}, err
	}
	imageHash, err := cache.Hash(sources, rootfsHash+shape+files, "recipe", "probe")
	if err != nil {
		return image{}, err
	}
	img := image{dir: filepath.Join(dir, imageHash), tree: filepath.Join(rootfs, "tree"), guests: AllGuests}
	err = cache.Ensure(ctx, progress, func() error {
		if err := makeRootfs(ctx, rootfs, progress); err != nil {
			return err
		}
		err := cache.Once(img.dir, func(tmp string) error {
			cache.Say(progress, "building the image")
			files := filepath.Join(tmp, "guest-files")
			if err := os.CopyFS(files, guest.Files); err != nil {
				return err
			}
			if err := cache.Recipe(ctx, sources, tmp, "build", rootfs, tmp, filepath.Join(tmp, "sources/probe"), files); err != nil {
				return err
			}
			return snapshot(ctx, image{dir: tmp, tree: img.tree, guests: img.guests}, progress)
		})
		if err == nil {
			cache.Prune(dir)
		}
		return err
	}, img.dir, rootfs)
	return img, err
}

// rootfs returns the path of the root file system in the cache, whether it exists yet or not.
func rootfs() (string, error) {
	dir, err := cache.Dir()
	if err != nil {
		return "", err
	}
	hash, err := cache.Hash(sources, "", "recipe/rootfs", "recipe/packages", "recipe/fix-qemu")
	return filepath.Join(dir, "rootfs-"+hash), err
}

func makeRootfs(ctx context.Context, rootfs string, progress io.Writer) error {
	return cache.Once(rootfs, func(tmp string) error {
		cache.Say(progress, "building the root file system (about 2 minutes)")
		return cache.Recipe(ctx, sources, tmp, "rootfs", tmp)
	})
}

// Rootfs returns the directory of the host's root file system, which it builds unless the cache has it: tree, and sources.list, which
// names the sources of its packages.
func Rootfs(ctx context.Context, progress io.Writer) (string, error) {
	dir, err := rootfs()
	if err != nil {
		return "", err
	}
	return dir, cache.Ensure(ctx, progress, func() error { return makeRootfs(ctx, dir, progress) }, dir)
}
