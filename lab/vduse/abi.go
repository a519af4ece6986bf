package main

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// From uapi linux/vduse.h, and what a NIC needs from linux/virtio_*.h.

const (
	setAPIVersion = 1<<30 | 8<<16 | 0x8101
	createDev     = 1<<30 | 336<<16 | 0x8102 // the size excludes the configuration
	destroyDev    = 1<<30 | 256<<16 | 0x8103
	iotlbGetFD    = 3<<30 | 32<<16 | 0x8110
	vqSetup       = 1<<30 | 32<<16 | 0x8114
	vqGetInfo     = 3<<30 | 48<<16 | 0x8115
	vqSetupKick   = 1<<30 | 8<<16 | 0x8116
	vqInjectIRQ   = 1<<30 | 4<<16 | 0x8117
)

// Requests of the kernel.
const (
	getVQState = iota
	setStatus
	updateIOTLB
)

const (
	deviceNet = 1 // virtio device type
	driverOK  = 4 // of a device's status

	features = 1<<5 | 1<<16 | 1<<32 | 1<<33 // MAC, STATUS, VERSION_1, ACCESS_PLATFORM
)

type devConfig struct {
	Name       [256]byte
	Vendor     uint32
	Device     uint32
	Features   uint64
	VQs        uint32
	VQAlign    uint32
	_          [13]uint32
	ConfigSize uint32
	Config     [64]byte // struct virtio_net_config
}

type vqConfig struct {
	Index   uint32
	MaxSize uint16
	_       [13]uint16
}

type iotlbEntry struct {
	Offset, Start, Last uint64
	Perm                uint8 // bits: 1 to read, 2 to write
	_                   [7]uint8
}

type vqInfo struct {
	Index, Num        uint32
	Desc, Avail, Used uint64
	AvailIndex        uint16
	_                 [6]uint8
	Ready             uint8
	_                 [7]uint8
}

type vqKick struct {
	Index uint32
	FD    int32
}

type request struct {
	Type, ID uint32
	_        [4]uint32
	Body     [128]uint8 // getVQState: the index; setStatus: the status; updateIOTLB: a range
}

type response struct {
	ID, Result uint32
	_          [4]uint32
	Index      uint32 // for getVQState, as are the following fields
	AvailIndex uint16
	_          [122]uint8
}

// bytesOf returns the memory of a structure, for exchange with the kernel.
func bytesOf[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }

// ioctl leaves the file in non-blocking mode, as Go's poller requires. Fd would not.
func ioctl[T any](f *os.File, number uintptr, arg *T) (result int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := raw.Control(func(fd uintptr) {
		r, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, number, uintptr(unsafe.Pointer(arg)))
		if result = int(r); errno != 0 {
			err = errno
		}
	})
	return result, errors.Join(cerr, err)
}
