package counters

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Constants of linux/ethtool.h that the unix package lacks.
const (
	ethStatsSet     = 1  // ETH_SS_STATS
	ethStringLength = 32 // ETH_GSTRING_LEN
)

// ethtoolSlack is room for statistics that a driver adds between two calls, for example because somebody configures more queues:
// older kernels ignore the requested number.
const ethtoolSlack = 1024

var errStatsChanged = errors.New("the driver's list of statistics changed meanwhile")

// ethtoolCount returns the number of statistics; unix.EOPNOTSUPP if the driver has none or reports none.
func ethtoolCount(fd int, dev string) (int, error) {
	b := make([]byte, 20) // struct ethtool_sset_info
	binary.NativeEndian.PutUint32(b, unix.ETHTOOL_GSSET_INFO)
	binary.NativeEndian.PutUint64(b[8:], 1<<ethStatsSet)
	if err := ethtoolCall(fd, dev, b); err != nil {
		return 0, err
	}
	n := binary.NativeEndian.Uint32(b[16:])
	if binary.NativeEndian.Uint64(b[8:]) == 0 || n == 0 {
		return 0, unix.EOPNOTSUPP
	}
	return int(n), nil
}

// ethtoolNames reads the names of n statistics.
func ethtoolNames(fd int, dev string, n int) ([]string, error) {
	const header = 12 // struct ethtool_gstrings
	b := make([]byte, header+ethStringLength*(n+ethtoolSlack))
	binary.NativeEndian.PutUint32(b, unix.ETHTOOL_GSTRINGS)
	binary.NativeEndian.PutUint32(b[4:], ethStatsSet)
	binary.NativeEndian.PutUint32(b[8:], uint32(n))
	if err := ethtoolCall(fd, dev, b); err != nil {
		return nil, err
	}
	if binary.NativeEndian.Uint32(b[8:]) != uint32(n) {
		return nil, errStatsChanged
	}
	names := make([]string, n)
	for i := range names {
		name, _, _ := bytes.Cut(b[header+i*ethStringLength:][:ethStringLength], []byte{0})
		names[i] = string(name)
	}
	return names, nil
}

// ethtoolValues reads n statistics into a buffer for ethtoolValue.
func ethtoolValues(fd int, dev string, n int, buf []byte) ([]byte, error) {
	size := valuesHeader + 8*(n+ethtoolSlack)
	if cap(buf) < size {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	binary.NativeEndian.PutUint32(buf, unix.ETHTOOL_GSTATS)
	binary.NativeEndian.PutUint32(buf[4:], uint32(n))
	if err := ethtoolCall(fd, dev, buf); err != nil {
		return buf, err
	}
	if binary.NativeEndian.Uint32(buf[4:]) != uint32(n) {
		return buf, errStatsChanged
	}
	return buf, nil
}

const valuesHeader = 8 // of struct ethtool_stats

func ethtoolValue(buf []byte, i int) uint64 {
	return binary.NativeEndian.Uint64(buf[valuesHeader+8*i:])
}

// ethtoolCall executes an ethtool command, whose structure is data. The ioctl waits for the kernel's rtnl lock.
func ethtoolCall(fd int, dev string, data []byte) error {
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
