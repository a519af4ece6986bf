package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const headerSize = 12 // struct virtio_net_hdr, from version 1 on

// ring is a split virtqueue in the driver's address space. Only one goroutine uses it.
type ring struct {
	size              uint16
	desc, avail, used uint64
	next, done        uint16 // number of chains taken, and given back
}

// chain is a descriptor chain that the driver made available.
type chain struct {
	head     uint16
	segments [][]byte
}

// pop takes the next chain, nil if there is none.
func (r *ring) pop(m *memory) (*chain, error) {
	avail, err := m.at(r.avail, 4+2*int(r.size))
	if err != nil {
		return nil, err
	}
	if uint16(atomic.LoadUint32(word(avail))>>16) == r.next {
		return nil, nil
	}
	c := &chain{head: binary.LittleEndian.Uint16(avail[4+2*(r.next%r.size):])}
	r.next++
	for i, more := c.head, true; more; {
		if len(c.segments) > int(r.size) || i >= r.size {
			return nil, fmt.Errorf("the driver's chain from %d on has no end", c.head)
		}
		d, err := m.at(r.desc+16*uint64(i), 16)
		if err != nil {
			return nil, err
		}
		s, err := m.at(binary.LittleEndian.Uint64(d), int(binary.LittleEndian.Uint32(d[8:])))
		if err != nil {
			return nil, err
		}
		c.segments = append(c.segments, s)
		more, i = d[12]&1 != 0, binary.LittleEndian.Uint16(d[14:])
	}
	return c, nil
}

// push gives a chain back, with n bytes written to it.
func (r *ring) push(m *memory, head uint16, n uint32) error {
	used, err := m.at(r.used, 4+8*int(r.size))
	if err != nil {
		return err
	}
	entry := used[4+8*(int(r.done)%int(r.size)):]
	binary.LittleEndian.PutUint32(entry, uint32(head))
	binary.LittleEndian.PutUint32(entry[4:], n)
	r.done++
	atomic.StoreUint32(word(used), uint32(r.done)<<16) // flags 0
	return nil
}

// word returns the flags and index at the beginning of a ring, which is aligned to four bytes.
func word(b []byte) *uint32 { return (*uint32)(unsafe.Pointer(&b[0])) }

// memory is the part of the driver's memory that is mapped so far.
type memory struct {
	file    *os.File
	mu      sync.Mutex // both queues map concurrently
	regions []region
}

type region struct {
	start, last uint64
	bytes       []byte
}

// at returns n bytes at an address of the driver's.
func (m *memory) at(addr uint64, n int) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.regions {
		if r.start <= addr && addr+uint64(n)-1 <= r.last {
			return r.bytes[addr-r.start:][:n:n], nil
		}
	}
	if n == 0 {
		return nil, nil
	}
	e := iotlbEntry{Start: addr, Last: addr + uint64(n) - 1}
	fd, err := ioctl(m.file, iotlbGetFD, &e)
	if err != nil {
		return nil, fmt.Errorf("find %d bytes at %#x: %w", n, addr, err)
	}
	defer unix.Close(fd)
	if addr < e.Start || e.Last < addr+uint64(n)-1 {
		return nil, fmt.Errorf("%d bytes at %#x lie across the border of %#x-%#x", n, addr, e.Start, e.Last)
	}
	prot := unix.PROT_READ
	if e.Perm&2 != 0 {
		prot |= unix.PROT_WRITE
	}
	b, err := unix.Mmap(fd, int64(e.Offset), int(e.Last-e.Start+1), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %#x-%#x: %w", e.Start, e.Last, err)
	}
	m.regions = append(m.regions, region{e.Start, e.Last, b})
	return b[addr-e.Start:][:n:n], nil
}

// forget drops the mappings, since the driver's memory has changed.
func (m *memory) forget() {
	for _, r := range m.regions {
		report(unix.Munmap(r.bytes))
	}
	m.regions = nil
}
