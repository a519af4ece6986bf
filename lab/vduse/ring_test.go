package main

import (
	"bytes"
	"encoding/binary"
	"testing"
	"unsafe"
)

// The sizes in the kernel's ioctl numbers and messages.
func TestSizes(t *testing.T) {
	for what, sizes := range map[string][2]uintptr{
		"vduse_dev_config":   {unsafe.Offsetof(devConfig{}.Config), 336},
		"vduse_vq_config":    {unsafe.Sizeof(vqConfig{}), 32},
		"vduse_iotlb_entry":  {unsafe.Sizeof(iotlbEntry{}), 32},
		"vduse_vq_info":      {unsafe.Sizeof(vqInfo{}), 48},
		"vduse_dev_request":  {unsafe.Sizeof(request{}), 152},
		"vduse_dev_response": {unsafe.Sizeof(response{}), 152},
	} {
		if sizes[0] != sizes[1] {
			t.Errorf("%s has %d bytes, want %d", what, sizes[0], sizes[1])
		}
	}
}

// A driver of a ring of four makes a chain of two buffers available, then one of its own end, then one without an end.
func TestRing(t *testing.T) {
	const desc, avail, used = 0, 0x100, 0x200
	ram := make([]byte, 0x1000)
	m := &memory{regions: []region{{0x10000, 0x10fff, ram}}}
	r := &ring{size: 4, desc: 0x10000 + desc, avail: 0x10000 + avail, used: 0x10000 + used, next: 0xffff, done: 0xffff}
	descriptor := func(i int, addr uint64, n uint32, flags, next uint16) {
		d := ram[desc+16*i:]
		binary.LittleEndian.PutUint64(d, addr)
		binary.LittleEndian.PutUint32(d[8:], n)
		binary.LittleEndian.PutUint16(d[12:], flags)
		binary.LittleEndian.PutUint16(d[14:], next)
	}
	offer := func(index, head uint16) { // as the driver counts, from 0xffff on
		binary.LittleEndian.PutUint16(ram[avail+4+2*(index%4):], head)
		binary.LittleEndian.PutUint16(ram[avail+2:], index+1)
	}
	binary.LittleEndian.PutUint16(ram[avail+2:], 0xffff)
	if c, err := r.pop(m); c != nil || err != nil {
		t.Fatalf("an empty ring gives %v, %v", c, err)
	}
	copy(ram[0x300:], "header")
	copy(ram[0x400:], "frame")
	descriptor(2, 0x10300, 6, 1, 0)
	descriptor(0, 0x10400, 5, 0, 0)
	offer(0xffff, 2)
	c, err := r.pop(m)
	if err != nil || c == nil || c.head != 2 || string(bytes.Join(c.segments, nil)) != "headerframe" {
		t.Fatalf("%+v, %v", c, err)
	}
	if err := r.push(m, c.head, 11); err != nil {
		t.Fatal(err)
	}
	if got := ram[used:][:4+4*8]; !bytes.Equal(got[:4], make([]byte, 4)) || got[4+3*8] != 2 || got[4+3*8+4] != 11 {
		t.Errorf("used ring % x", got)
	}
	descriptor(1, 0x10300, 6, 1, 1)
	offer(0, 1)
	if c, err := r.pop(m); err == nil {
		t.Errorf("a chain without an end gives %+v", c)
	}
}
