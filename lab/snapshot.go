package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sluice/lab/cache"
)

const bootTries = 4 // for each guest: under emulation one occasionally dies at boot

// snapshot boots the host and every guest once, suspends the guests and saves the machine to disk.qcow2 and state in the image's
// directory. Tests resume from there: a boot takes minutes, a resume seconds.
func snapshot(ctx context.Context, img image, progress io.Writer) (err error) {
	room, err := cache.Slot(ctx, progress)
	if err != nil {
		return err
	}
	defer room.Close()
	start := time.Now()
	dir, err := runDir()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w (console and logs: %s)", err, dir)
		} else {
			os.RemoveAll(dir)
		}
	}()
	h := newHost(&machine{image: img.dir, tree: img.tree, dir: dir, disk: img.dir + "/disk.qcow2"}, "")
	// A relative name, because the directory is about to be renamed.
	if err := newDisk(ctx, img.tree, "disk.img", "raw", h.machine.disk); err != nil {
		return err
	}
	cache.Say(progress, "booting the host")
	if err := h.machine.start(ctx, "", false, nil); err != nil {
		return err
	}
	defer func() { _ = h.machine.stop(context.WithoutCancel(ctx)) }()
	if err := h.awaitBoot(ctx); err != nil {
		return err
	}
	h.ssh.port = h.machine.port
	if err := h.ssh.connect(ctx); err != nil {
		return err
	}
	defer h.ssh.close()
	cache.Say(progress, "host is up after %v", since(start))
	for _, vm := range img.guests {
		began := time.Now()
		if err := h.bootGuest(ctx, vm, progress); err != nil {
			return err
		}
		cache.Say(progress, "%s booted in %v", vm, since(began))
	}
	if _, err := h.Run(ctx, "sync; echo 3 >/proc/sys/vm/drop_caches"); err != nil {
		return err
	}
	mon, err := dialQMP(ctx, dir+"/qmp")
	if err != nil {
		return err
	}
	defer mon.close()
	if err := mon.save(ctx, img.dir+"/state"); err != nil {
		return err
	}
	cache.Say(progress, "snapshot made, %v in all", since(start))
	return nil
}

func (h *Host) awaitBoot(ctx context.Context) error {
	console := filepath.Join(h.dir, "console.log")
	return Eventually(ctx, 10*time.Minute, "boot of the host ("+console+")", func() (bool, error) {
		if h.machine.ended() {
			return false, Fatal(fmt.Errorf("the host died while booting, see %s", console))
		}
		text, err := os.ReadFile(console)
		return bytes.Contains(text, []byte("LAB READY")), err
	})
}

// bootGuest boots a guest to answering agents, and suspends it.
func (h *Host) bootGuest(ctx context.Context, vm string, progress io.Writer) error {
	var err error
	for try := range bootTries {
		if try > 0 {
			cache.Say(progress, "%s did not boot, once more: %v", vm, err)
			_, _ = h.Run(ctx, "virsh -q destroy "+vm) // it may already be dead
		}
		if err = h.tryBoot(ctx, vm); err == nil {
			return h.settle(ctx, vm)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return err
}

// settle suspends a guest in the state that tests expect: its agent serves one connection at a time, so the lab's own must be closed
// when the snapshot is taken.
func (h *Host) settle(ctx context.Context, vm string) error {
	h.closeAgents()
	_, err := h.Run(ctx, "while pgrep -x socat >/dev/null; do sleep 0.1; done; virsh -q suspend "+vm)
	return err
}

func (h *Host) tryBoot(ctx context.Context, vm string) error {
	if _, err := h.Run(ctx, fmt.Sprintf("rm -f /var/log/lab/%s.console; virsh -q start %s", vm, vm)); err != nil {
		return err
	}
	// The loop runs on the host and starts few processes, since each takes CPU time from the booting guest.
	_, err := h.Run(ctx, fmt.Sprintf(`for ((i = 0; i < 360; i++)); do
		grep -qs 'GUEST UP' /var/log/lab/%[1]s.console && exit 0
		[ -e /run/libvirt/qemu/%[1]s.pid ] || { echo '%[1]s died while booting' >&2; exit 1; }
		sleep 0.5
	done
	echo '%[1]s does not come up' >&2
	exit 1`, vm))
	if err != nil {
		return err
	}
	return h.awaitAgents(ctx, vm)
}

func since(t time.Time) time.Duration { return time.Since(t).Round(100 * time.Millisecond) }
