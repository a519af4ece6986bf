package sluiceguest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/channel"
)

// port is the guest's end of the channel. Read returns io.EOF while no host is connected, and works again once one is.
type port interface {
	channel.Conn
	// connected reports whether the host has opened the other end. An error means that the port is gone.
	connected() (bool, error)
}

// filePort is a real virtio-serial port.
type filePort struct{ *os.File }

// openPort opens the port at a path. The kernel allows one process to have it open, and returns EBUSY to others.
func openPort(path string) (port, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return filePort{os.NewFile(uintptr(fd), path)}, nil
}

func (p filePort) connected() (bool, error) {
	raw, err := p.SyscallConn()
	if err != nil {
		return false, err
	}
	poll := []unix.PollFd{{}}
	if err := raw.Control(func(fd uintptr) {
		poll[0].Fd = int32(fd)
		_, _ = unix.Poll(poll, 0)
	}); err != nil {
		return false, err
	}
	if poll[0].Revents&unix.POLLHUP == 0 {
		return true, nil
	}
	own, err := p.Stat()
	if err != nil {
		return false, err
	}
	if there, err := os.Stat(p.Name()); err != nil || !os.SameFile(own, there) {
		return false, fmt.Errorf("%s has gone", p.Name())
	}
	return false, nil
}

// findPort returns the path below /dev of the port with the channel's name. udev creates a link of that name; without udev, sysfs tells
// which port has the name.
func findPort(root fs.FS) (string, error) {
	link := "dev/virtio-ports/" + channel.Port
	if _, err := fs.Stat(root, link); err == nil {
		return "/" + link, nil
	}
	const class = "sys/class/virtio-ports"
	ports, _ := fs.ReadDir(root, class)
	for _, p := range ports {
		name, _ := fs.ReadFile(root, class+"/"+p.Name()+"/name")
		if strings.TrimSpace(string(name)) == channel.Port {
			return path.Join("/dev", p.Name()), nil
		}
	}
	return "", fmt.Errorf("this VM has no virtio-serial port %s: on the host, define a virtual PF with a channel for it (sluice vpf define); "+
		"here, load virtio_console (modprobe virtio_console)",
		channel.Port)
}

// pauses double from firstPause up to lastPause.
type pauses struct{ now time.Duration }

const (
	firstPause = 250 * time.Millisecond
	lastPause  = 5 * time.Second
)

func (p *pauses) next() time.Duration {
	p.now = min(max(firstPause, 2*p.now), lastPause)
	return p.now
}
