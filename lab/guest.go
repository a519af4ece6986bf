package lab

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Address returns the IPv4 address of a guest, or of ext, ext1, or host (br0).
func Address(name string) string {
	switch name {
	case "host":
		return "10.9.0.1"
	case "ext":
		return "10.9.0.100"
	case "ext1":
		return "10.9.1.100"
	case "vm7":
		return "10.9.1.17"
	}
	return "10.9.0.1" + strings.TrimPrefix(name, "vm")
}

// MAC returns the MAC address of a guest's pair.
func MAC(vm string) string { return "52:54:00:00:01:0" + strings.TrimPrefix(vm, "vm") }

// Tap returns the host's device behind a guest's virtio NIC.
func Tap(vm string) string { return "tap" + strings.TrimPrefix(vm, "vm") }

// Resume resumes a suspended guest, sets its clock and waits until it answers.
func (h *Host) Resume(ctx context.Context, vm string) error {
	if !slices.Contains(AllGuests, vm) {
		return fmt.Errorf("no guest %q in the lab", vm)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if _, err := h.Run(ctx, "virsh -q resume "+vm); err != nil {
		return err
	}
	if err := h.awaitAgents(ctx, vm); err != nil {
		return err
	}
	return h.syncGuestClock(ctx, vm)
}

// Suspend stops a guest's CPU. The host sees it as 'paused'; it answers neither its agent nor an unplug request.
func (h *Host) Suspend(ctx context.Context, vm string) error {
	_, err := h.Run(ctx, "virsh -q suspend "+vm)
	return err
}

// awaitAgents waits for both of a guest's agents: a running domain may have a dead guest.
func (h *Host) awaitAgents(ctx context.Context, vm string) error {
	err := Eventually(ctx, time.Minute, vm+": the lab's agent", func() (bool, error) {
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return true, h.agent(vm).do(try, "guest-ping", nil, nil)
	})
	if err != nil {
		return err
	}
	return Eventually(ctx, time.Minute, vm+": guest agent", func() (bool, error) {
		_, err := h.Run(ctx, "virsh -q qemu-agent-command "+vm+` '{"execute":"guest-ping"}' --timeout 5`)
		return err == nil, err
	})
}

func (h *Host) agent(vm string) *GuestAgent {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.agents[vm]
	if a == nil {
		a = &GuestAgent{VM: vm, Shell: "/bin/sh", Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"}}
		a.Dial = func(ctx context.Context) (io.ReadWriteCloser, error) {
			cid := "10" + strings.TrimPrefix(vm, "vm")
			return startPipe(h.ssh.command(context.WithoutCancel(ctx), "socat - VSOCK-CONNECT:"+cid+":1024"))
		}
		h.agents[vm] = a
	}
	return a
}

func (h *Host) closeAgents() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.agents {
		a.Close()
	}
}

// GuestExec runs a shell command inside a guest and returns what it printed. It goes over vsock to an agent of the lab's own: it works
// whatever the state of the guest's network and of the agent that the software under test talks to.
func (h *Host) GuestExec(ctx context.Context, vm, command string) (string, error) {
	return h.agent(vm).Exec(ctx, command)
}

// SetRate sets how much a guest sends to the outside host on its wire from now on, in packets with size bytes of UDP payload. Initially
// it sends nothing.
func (h *Host) SetRate(ctx context.Context, vm string, pps float64, size int) error {
	_, err := h.GuestExec(ctx, vm, fmt.Sprintf("labprobe ctl 127.0.0.1 7000 rate %g %d", pps, size))
	return err
}

// IgnoreHotplug makes a guest ignore ACPI hot-plug by masking the event, so that a request to plug or unplug stays pending, as in a
// guest that is overloaded or broken. With false the guest handles what is pending.
func (h *Host) IgnoreHotplug(ctx context.Context, vm string, ignore bool) error {
	word := "unmask"
	if ignore {
		word = "mask"
	}
	_, err := h.GuestExec(ctx, vm, "echo "+word+" >/sys/firmware/acpi/interrupts/gpe01")
	return err
}

// Reboot resets a guest as its reset button does, and waits until it answers. It ends the traffic that the guest was sending.
func (h *Host) Reboot(ctx context.Context, vm string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	up, err := h.GuestExec(ctx, vm, "cat /proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	if _, err := h.Run(ctx, "virsh -q set-lifecycle-action "+vm+" reboot restart --live && virsh -q reset "+vm); err != nil {
		return err
	}
	err = Eventually(ctx, time.Minute, vm+": another boot", func() (bool, error) {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		now, err := h.GuestExec(try, vm, "cat /proc/sys/kernel/random/boot_id")
		return err == nil && now != up, err
	})
	if err != nil {
		return err
	}
	if err := h.awaitAgents(ctx, vm); err != nil {
		return err
	}
	return h.syncGuestClock(ctx, vm)
}

// ReplaceGuestAgent replaces the guest agent that the software under test uses by a shell script with the agent's channel as descriptor
// 3. The script is restarted whenever it ends, since the channel is at EOF while the host is not connected. "" restores the agent.
func (h *Host) ReplaceGuestAgent(ctx context.Context, vm, script string) error {
	const channel = "/dev/virtio-ports/org.qemu.guest_agent.0"
	command := "p=$(cat /run/liar.pid); kill $p; while kill -0 $p 2>/dev/null; do usleep 50000; done; qemu-ga -d -m virtio-serial -p " +
		channel + " -f /run/agent.pid -l /var/log/agent.log -t /run"
	if script != "" {
		if _, err := h.GuestExec(ctx, vm, "cat >/run/liar <<'END'\nwhile :; do\n"+script+"\nusleep 100000\ndone\nEND\n"); err != nil {
			return err
		}
		command = "p=$(cat /run/agent.pid); kill $p; while kill -0 $p 2>/dev/null; do usleep 50000; done; setsid sh /run/liar 3<>" + channel +
			" >/dev/null 2>&1 & echo $! >/run/liar.pid"
	}
	_, err := h.GuestExec(ctx, vm, command)
	return err
}

// StopGuestAgent stops or, with false, continues the guest agent that the software under test uses. The guest itself keeps running.
func (h *Host) StopGuestAgent(ctx context.Context, vm string, stop bool) error {
	signal := "CONT"
	if stop {
		signal = "STOP"
	}
	_, err := h.GuestExec(ctx, vm, fmt.Sprintf("kill -%s $(cat /run/agent.pid)", signal))
	return err
}
