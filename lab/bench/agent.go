package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	inguest "sluice/internal/host/guest"
	"sluice/internal/model"
)

// agents limits guests as the daemon does: through a real qemu-ga in each guest, by Sluice's own in-guest limit.
type agents struct {
	shaper *inguest.Shaper
	boxes  []chan float64 // the newest limit of each guest that is not yet applied

	mu     sync.Mutex
	failed error
}

// agentSocket is a Transport to agents that listen on Unix sockets in a directory, one per VM.
type agentSocket string

func (dir agentSocket) Agent(ctx context.Context, vm model.VMID, cmd []byte) ([]byte, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", filepath.Join(string(dir), string(vm)))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	if _, err := c.Write(append(cmd, '\n')); err != nil {
		return nil, err
	}
	return bufio.NewReader(c).ReadBytes('\n')
}

// newAgents starts an agent in each of n guests.
func newAgents(ctx context.Context, n int) (*agents, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = os.RemoveAll(dir) })
	a := &agents{shaper: inguest.NewShaper(agentSocket(dir))}
	for i := range n {
		if err := startAgent(dir, i); err != nil {
			return nil, err
		}
		box := make(chan float64, 1)
		a.boxes = append(a.boxes, box)
		go a.serve(ctx, i, box)
	}
	return a, nil
}

// startAgent starts qemu-ga in guest i. If the kernel has neither bonds nor net_failover, the guest has a macvlan instead; the
// /sys/class/net shown to the guest presents it as the device above a pair.
func startAgent(dir string, i int) error {
	above := "/sys/class/net/" + guestDev
	script := strings.Join([]string{
		"set -e",
		"mount -t tmpfs tmpfs /run",
		"mount -t tmpfs tmpfs /sys/class/net",
		"mkdir -p " + above + "/lower_eth0 " + above + "/device",
		"echo " + guestMAC(i) + " >" + above + "/address",
		"echo 1500 >" + above + "/mtu",
		"exec qemu-ga -m unix-listen -p $0/" + guestNS(i) + " -t $0 -f $0/pid-" + guestNS(i),
	}, "\n")
	cmd := exec.Command("ip", "netns", "exec", guestNS(i), "sh", "-c", script, dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, guestNS(i))); err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the agent of guest %d does not listen after 20 s", i+1)
		}
	}
}

// set queues a limit, to be applied once the one in progress is.
func (a *agents) set(i int, bits float64) error {
	for {
		select {
		case a.boxes[i] <- bits:
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.failed
		case <-a.boxes[i]: // drop an older limit that was not read
		}
	}
}

// serve applies a guest's limits, and renews them before they expire.
func (a *agents) serve(ctx context.Context, i int, box <-chan float64) {
	mac, _ := model.ParseMAC(guestMAC(i))
	bits := math.Inf(1)
	renew := time.NewTicker(model.LimitLease / 4)
	defer renew.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case bits = <-box:
		case <-renew.C:
		}
		if math.IsInf(bits, 1) {
			bits = noLimit // changing an existing class is faster than adding and deleting it
		}
		limit := model.Rate{Bits: uint64(bits)}
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := a.shaper.Limit(call, model.VMID(guestNS(i)), mac, limit, model.Rate{})
		cancel()
		if err != nil && ctx.Err() == nil && !errors.Is(err, inguest.ErrLifted) {
			a.mu.Lock()
			a.failed = err
			a.mu.Unlock()
		}
	}
}
