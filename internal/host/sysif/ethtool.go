package sysif

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// EthtoolSocket opens a socket for ethtool's ioctls.
func EthtoolSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open socket for ethtool: %w", err)
	}
	return fd, nil
}

// EthtoolCall executes an ethtool command, whose structure is data. The ioctl waits for the kernel's rtnl lock.
func EthtoolCall(fd int, dev string, data []byte) error {
	var req struct { // struct ifreq
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	if len(dev) >= len(req.name) {
		return fmt.Errorf("%w: the name is too long", unix.ENODEV)
	}
	copy(req.name[:], dev)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&data[0])
	req.data = unsafe.Pointer(&data[0])
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	if errno != 0 {
		return os.NewSyscallError("ethtool ioctl", errno)
	}
	return nil
}
