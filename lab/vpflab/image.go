package vpflab

import (
	"context"
	"embed"
	"io"
	"path/filepath"

	"sluice/lab"
	"sluice/lab/cache"
)

// sources is everything that the guest is built from; its hash names the guest in the cache.
//
//go:embed recipe
var sources embed.FS

// image is what a lab runs on.
type image struct {
	tree  string // root file system of the host
	guest string // directory with vmlinuz, initrd, disk.img
	init  string // script that is PID 1 on the host
}

// Build builds what the lab needs unless it is in the cache. It takes minutes the first time.
func Build(ctx context.Context, progress io.Writer) error {
	_, err := build(ctx, progress)
	return err
}

func build(ctx context.Context, progress io.Writer) (image, error) {
	host, err := lab.Rootfs(ctx, progress)
	if err != nil {
		return image{}, err
	}
	dir, err := cache.Dir()
	if err != nil {
		return image{}, err
	}
	dir = filepath.Join(dir, "vpf")
	base := filepath.Base(host)
	treeHash, err := cache.Hash(sources, base, "recipe/rootfs", "recipe/guest-packages")
	if err != nil {
		return image{}, err
	}
	imageHash, err := cache.Hash(sources, base, "recipe")
	if err != nil {
		return image{}, err
	}
	tree := filepath.Join(dir, "rootfs-"+treeHash)
	guest := filepath.Join(dir, imageHash)
	img := image{tree: filepath.Join(host, "tree"), guest: guest, init: filepath.Join(guest, "sources/recipe/host-init")}
	err = cache.Ensure(ctx, progress, func() error {
		err := cache.Once(tree, func(tmp string) error {
			cache.Say(progress, "building the guest's root file system (about a minute)")
			return cache.Recipe(ctx, sources, tmp, "rootfs", tmp, filepath.Join(host, "sources.list"))
		})
		if err != nil {
			return err
		}
		err = cache.Once(guest, func(tmp string) error {
			return cache.Recipe(ctx, sources, tmp, "build", img.tree, filepath.Join(tree, "tree"), tmp)
		})
		cache.Prune(dir)
		return err
	}, guest, tree)
	return img, err
}
