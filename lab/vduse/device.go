package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	queues    = 2 // queue 0 receives, queue 1 sends
	queueSize = 256
)

// device is a VDUSE device served by this process.
type device struct {
	file *os.File
	tap  *os.File

	mu     sync.RWMutex // write-locked while the guest's memory or the queues change
	mem    memory
	rings  [queues]*ring // nil until the driver has set the device up
	kick   *os.File
	sender sync.WaitGroup
}

// createDevice creates the device /dev/vduse/NAME with its link up.
func createDevice(name string, mac net.HardwareAddr) error {
	c := devConfig{Device: deviceNet, Features: features, VQs: queues, VQAlign: 4096}
	if len(name) >= len(c.Name) {
		return errors.New("the name is too long")
	}
	copy(c.Name[:], name)
	c.ConfigSize = uint32(len(c.Config))
	copy(c.Config[:], mac)
	c.Config[6] = 1 // the link is up
	return control(func(f *os.File) error {
		var version uint64
		if _, err := ioctl(f, setAPIVersion, &version); err != nil {
			return err
		}
		_, err := ioctl(f, createDev, &c)
		return err
	})
}

func destroyDevice(name string) error {
	var text [256]byte
	copy(text[:], name)
	return control(func(f *os.File) error {
		_, err := ioctl(f, destroyDev, &text)
		return err
	})
}

func control(do func(*os.File) error) error {
	f, err := os.OpenFile("/dev/vduse/control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

func openDevice(name string, tap *os.File) (*device, error) {
	f, err := os.OpenFile("/dev/vduse/"+name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	for i := range uint32(queues) {
		if _, err := ioctl(f, vqSetup, &vqConfig{Index: i, MaxSize: queueSize}); err != nil {
			return nil, err
		}
	}
	return &device{file: f, tap: tap, mem: memory{file: f}}, nil
}

// serve answers the kernel's requests until the file is closed.
func (d *device) serve() error {
	for {
		var req request
		if _, err := d.file.Read(bytesOf(&req)); err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		resp := response{ID: req.ID}
		if err := d.answer(&req, &resp); err != nil {
			fmt.Fprintln(os.Stderr, "vduse:", err)
			resp.Result = 1
		}
		if _, err := d.file.Write(bytesOf(&resp)); err != nil {
			return fmt.Errorf("answer a request: %w", err)
		}
	}
}

func (d *device) answer(req *request, resp *response) error {
	switch req.Type {
	case getVQState:
		d.mu.RLock()
		defer d.mu.RUnlock()
		resp.Index = binary.NativeEndian.Uint32(req.Body[:])
		if r := d.rings[resp.Index%queues]; r != nil {
			resp.AvailIndex = r.next
		}
	case setStatus:
		fmt.Printf("status %#x\n", req.Body[0])
		if req.Body[0]&driverOK == 0 {
			d.stop()
			return nil
		}
		return d.start()
	case updateIOTLB:
		d.mu.Lock()
		defer d.mu.Unlock()
		d.mem.forget()
	}
	return nil
}

// start begins to carry frames over the queues that the driver has set up.
func (d *device) start() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rings[0] != nil {
		return nil
	}
	for i := range d.rings {
		info := vqInfo{Index: uint32(i)}
		if _, err := ioctl(d.file, vqGetInfo, &info); err != nil {
			return err
		}
		fmt.Printf("queue %d: %d entries, ready %d\n", i, info.Num, info.Ready)
		if info.Num == 0 {
			return fmt.Errorf("queue %d has no entries", i)
		}
		d.rings[i] = &ring{
			size: uint16(info.Num), desc: info.Desc, avail: info.Avail, used: info.Used, next: info.AvailIndex,
			done: info.AvailIndex,
		}
	}
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return err
	}
	if _, err := ioctl(d.file, vqSetupKick, &vqKick{Index: 1, FD: int32(fd)}); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	d.kick = os.NewFile(uintptr(fd), "kick")
	d.sender.Add(1)
	go d.send(d.kick)
	return nil
}

// stop stops using the queues, since the driver has reset the device.
func (d *device) stop() {
	d.mu.Lock()
	d.rings = [queues]*ring{}
	if d.kick != nil {
		_ = d.kick.Close()
		d.kick = nil
	}
	d.mem.forget() // the kernel does not report that a driver of the host has freed its queues
	d.mu.Unlock()
	d.sender.Wait()
}

// send carries frames from the driver to the tap, each time the driver signals that there are some.
func (d *device) send(kick *os.File) {
	defer d.sender.Done()
	var count [8]byte
	for {
		d.drain()
		if _, err := kick.Read(count[:]); err != nil {
			return
		}
	}
}

func (d *device) drain() {
	d.mu.RLock()
	r, sent := d.rings[1], false
	for frame := make([]byte, 0, 1<<16); r != nil; sent = true {
		c, err := r.pop(&d.mem)
		if err != nil || c == nil {
			report(err)
			break
		}
		frame = frame[:0]
		for _, s := range c.segments {
			frame = append(frame, s...)
		}
		if len(frame) > headerSize {
			_, err = d.tap.Write(frame[headerSize:])
		}
		report(errors.Join(err, r.push(&d.mem, c.head, 0)))
	}
	d.mu.RUnlock()
	if sent {
		d.interrupt(1)
	}
}

// receive carries frames from the tap to the driver until the tap is closed. It drops frames for which there is no buffer.
func (d *device) receive() error {
	frame := make([]byte, 1<<16)
	for {
		n, err := d.tap.Read(frame[headerSize:])
		if err != nil {
			return fmt.Errorf("read from the tap: %w", err)
		}
		clear(frame[:headerSize])
		frame[10] = 1 // the number of buffers, in the header
		if d.deliver(frame[:headerSize+n]) {
			d.interrupt(0)
		}
	}
}

func (d *device) deliver(frame []byte) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	r := d.rings[0]
	if r == nil {
		return false
	}
	c, err := r.pop(&d.mem)
	if err != nil || c == nil {
		report(err)
		return false
	}
	rest := frame
	for _, s := range c.segments {
		rest = rest[copy(s, rest):]
	}
	report(r.push(&d.mem, c.head, uint32(len(frame)-len(rest))))
	return true
}

// interrupt signals the driver. The kernel rejects it until it has set the status that it has just asked this process for, which takes
// only a moment.
func (d *device) interrupt(queue uint32) {
	for range 1000 {
		if _, err := ioctl(d.file, vqInjectIRQ, &queue); !errors.Is(err, unix.EINVAL) {
			report(err)
			return
		}
		d.mu.RLock()
		gone := d.rings[queue] == nil
		d.mu.RUnlock()
		if gone {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func report(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "vduse:", err)
	}
}
