package lab

import (
	"context"
	"embed"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"sluice/lab/cache"
)

// systemdSources are the changes to an image that make systemd PID 1.
//
//go:embed systemd
var systemdSources embed.FS

func buildFor(ctx context.Context, o Options) (image, error) {
	img, err := build(ctx, o.Progress)
	if err != nil || !o.Systemd {
		return img, err
	}
	return buildSystemd(ctx, img, o.Progress)
}

// buildSystemd derives an image with systemd as PID 1 from another: the same disk, to which it keeps a link of its own, with another
// initrd and a separate snapshot.
func buildSystemd(ctx context.Context, base image, progress io.Writer) (image, error) {
	sources, err := fs.Sub(systemdSources, "systemd")
	if err != nil {
		return image{}, err
	}
	hash, err := cache.Hash(sources, filepath.Base(base.dir), "recipe")
	if err != nil {
		return image{}, err
	}
	dir := filepath.Join(filepath.Dir(base.dir), "systemd")
	img := image{dir: filepath.Join(dir, hash), tree: base.tree, guests: []string{"vm1", "vm2"}}
	err = cache.Ensure(ctx, progress, func() error {
		err := cache.Once(img.dir, func(tmp string) error {
			cache.Say(progress, "building the image with systemd")
			if err := cache.Recipe(ctx, sources, tmp, "build", base.dir, tmp); err != nil {
				return err
			}
			return snapshot(ctx, image{dir: tmp, tree: img.tree, guests: img.guests}, progress)
		})
		cache.Prune(dir)
		return err
	}, img.dir)
	return img, err
}

// Restart cleanly reboots a host whose PID 1 is systemd, and waits until its libvirt answers. The guests are shut off then. The disk
// stays the same.
func (h *Host) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	_, _ = h.Run(ctx, "systemctl reboot") // the connection may break before the answer
	// QEMU exits where the machine would reboot.
	err := Eventually(ctx, 5*time.Minute, "the host's shutdown", func() (bool, error) { return h.machine.ended(), nil })
	if err != nil {
		return err
	}
	h.Detach()
	if err := os.Rename(h.dir+"/console.log", h.dir+"/console-before.log"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	room, err := cache.Slot(ctx, nil)
	if err != nil {
		return err
	}
	defer room.Close() // QEMU has its own descriptor
	if err := h.machine.start(ctx, "", false, room); err != nil {
		return err
	}
	if err := h.awaitBoot(ctx); err != nil {
		return err
	}
	h.ssh.port = h.machine.port
	if err := h.ssh.connect(ctx); err != nil {
		return err
	}
	return h.syncClock(ctx)
}
