package counters

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"sluice/internal/host/sysif"
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
	if err := sysif.EthtoolCall(fd, dev, b); err != nil {
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
	if err := sysif.EthtoolCall(fd, dev, b); err != nil {
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
	if err := sysif.EthtoolCall(fd, dev, buf); err != nil {
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
