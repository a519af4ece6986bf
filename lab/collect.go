package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// state is what to query on the host after a test has failed.
const state = `
for c in "virsh list --all" "ip -d -s link" "bridge -s fdb" "bridge link" "ip netns exec ext ip -s link" \
	"ip -s neigh" "ip netns exec ext ip -s neigh" \
	"cat /proc/interrupts" "top -bn1" "bpftool net" "dmesg" "journalctl --no-pager -o short-monotonic -b"; do
	echo "=== $c"; timeout 20 $c 2>&1
done
for vm in $(virsh list --name --all); do echo "=== $vm"; timeout 20 virsh dumpxml $vm; done
for vf in /sys/class/net/pf?/device/virtfn*; do
	echo "$vf $(basename $(readlink $vf)) enable=$(cat $vf/enable) irqs: $(ls $vf/msi_irqs 2>/dev/null | tr '\n' ' ')"
done`

// Collect copies the logs and the state of the host and its guests to ArtifactDir. It continues after errors: the host may be dead.
func (h *Host) Collect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	h.saveConsole()
	out, err := h.Run(ctx, state)
	werr := os.WriteFile(filepath.Join(h.ArtifactDir, "host-state.txt"), []byte(out), 0o644)
	return errors.Join(err, werr, h.collectGuests(ctx), h.fetchLogs(ctx))
}

// collectGuests queries the network state of the running guests.
func (h *Host) collectGuests(ctx context.Context) error {
	names, err := h.Run(ctx, "virsh list --name --state-running")
	if err != nil {
		return err
	}
	var errs []error
	for _, vm := range strings.Fields(names) {
		try, cancel := context.WithTimeout(ctx, 20*time.Second)
		out, err := h.GuestExec(try, vm, "ip -s link; ip -s neigh; cat /proc/interrupts; dmesg | tail -n 50")
		cancel()
		errs = append(errs, err, os.WriteFile(filepath.Join(h.ArtifactDir, vm+"-state.txt"), []byte(out), 0o644))
	}
	return errors.Join(errs...)
}

func (h *Host) fetchLogs(ctx context.Context) error {
	cmd := h.ssh.command(ctx, "tar -C / --ignore-failed-read -czf - var/log/lab var/log/libvirt "+
		"$(cd / && ls -d var/log/sluice* var/lib/sluice* run/sluice/*.log* 2>/dev/null) 2>/dev/null")
	var archive bytes.Buffer
	cmd.Stdout = &archive
	if err := cmd.Run(); err != nil && archive.Len() == 0 {
		return fmt.Errorf("fetch logs: %w", err)
	}
	logs := filepath.Join(h.ArtifactDir, "host")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	untar := exec.CommandContext(ctx, "tar", "-C", logs, "-xzf", "-")
	untar.Stdin = &archive
	return untar.Run()
}

// saveConsole keeps the console and QEMU's own log, which do not need a live host.
func (h *Host) saveConsole() {
	for _, name := range []string{"console.log", "qemu.log"} {
		text, err := os.ReadFile(filepath.Join(h.dir, name))
		if err == nil {
			_ = os.WriteFile(filepath.Join(h.ArtifactDir, name), text, 0o644)
		}
	}
}
