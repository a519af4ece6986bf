package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sluice/lab/tuntap"
)

// The test bed of DBA-VM's experiments: guests write frames to taps, as QEMU does for them, behind a bridge with an uplink of 1 Gbit/s.
const (
	tapLink   = 1e9
	tapFIFO   = 256 << 10
	tapSinkNS = "rx1"
	tapSinkIP = "10.8.0.254"
	tapPort   = 9
)

type tapBed struct {
	taps []*os.File
	sink int // socket
}

func tapName(i int) string { return fmt.Sprintf("vm%d", i+1) }
func tapIP(i int) string   { return fmt.Sprintf("10.8.0.%d", i+1) }

func newTapBed(n int) (*tapBed, error) {
	b := &tapBed{sink: -1}
	err := newBridge("br1", "up1", tapSinkNS)
	if err == nil {
		err = batch("tc", "qdisc add dev up1 root handle 1: htb default 2",
			tapClass("1:", "1:1", tapLink), tapClass("1:1", "1:2", tapLink), tapQueue("1:2"))
	}
	if err != nil {
		return nil, err
	}
	for i := range n {
		f, err := tuntap.OpenTap(tapName(i))
		if err != nil {
			return nil, err
		}
		b.taps = append(b.taps, f)
		if err := batch("ip", "link set "+tapName(i)+" master br1 up"); err != nil {
			return nil, err
		}
	}
	return b, inNS(tapSinkNS, b.openSink)
}

// tapClass returns the tc command that adds an HTB class with that rate to the uplink, tapQueue the one for its queue.
func tapClass(parent, id string, bits float64) string {
	return fmt.Sprintf("class add dev up1 parent %s classid %s htb rate %.0fbit ceil %.0fbit burst 64k cburst 64k quantum 60000 overhead 24",
		parent, id, bits, bits)
}

func tapQueue(class string) string {
	return fmt.Sprintf("qdisc add dev up1 parent %s bfifo limit %d", class, tapFIFO)
}

func (b *tapBed) openSink() (err error) {
	if err := quiet(); err != nil {
		return err
	}
	if err := batch("ip", "addr add "+tapSinkIP+"/16 dev eth0", "link set eth0 up"); err != nil {
		return err
	}
	if b.sink, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	timeout := unix.NsecToTimeval(int64(50 * time.Millisecond))
	return cmp.Or(unix.SetsockoptInt(b.sink, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20),
		unix.SetsockoptTimeval(b.sink, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
		unix.Bind(b.sink, &unix.SockaddrInet4{Port: tapPort}))
}

// Layout of a frame: headers, and at the start of the payload the sender, the sequence number and the time.
const (
	frameHeaders = 14 + 20 + 8
	frameStamp   = 1 + 7 + 8
)

// makeFrame returns a UDP datagram of guest i in an Ethernet frame of size bytes, without the frame check sequence.
func makeFrame(i, size int) []byte {
	f := make([]byte, size)
	hw, _ := net.ParseMAC(sinkMAC)
	copy(f, hw)
	copy(f[6:], []byte{2, 0, 0, 0, 1, byte(i)})
	f[12] = 8
	ip := f[14:34]
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], uint16(size-14))
	copy(ip[12:], net.ParseIP(tapIP(i)).To4())
	copy(ip[16:], net.ParseIP(tapSinkIP).To4())
	binary.BigEndian.PutUint16(ip[10:], headerSum(ip))
	binary.BigEndian.PutUint16(f[34:], tapPort)
	binary.BigEndian.PutUint16(f[36:], tapPort)
	binary.BigEndian.PutUint16(f[38:], uint16(size-34))
	f[frameHeaders] = byte(i)
	return f
}

// headerSum returns the Internet checksum of a header whose checksum field is 0.
func headerSum(b []byte) uint16 {
	sum := uint32(0)
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail
	return t.Nano()
}

// burstEvery is how often a guest's sender wakes to write the frames that are due.
const burstEvery = 250 * time.Microsecond

// blast writes packets/s of a guest's frames to its tap until stop is set, and counts them.
func (b *tapBed) blast(i, size int, packets float64, stop *atomic.Bool, offered *atomic.Int64) error {
	raw, err := b.taps[i].SyscallConn()
	if err != nil {
		return err
	}
	frame := makeFrame(i, size)
	stamp := frame[frameHeaders:]
	begin, n := monotonic(), int64(0)
	var failed error
	err = raw.Control(func(fd uintptr) {
		for !stop.Load() {
			now := monotonic()
			for due := int64(float64(now-begin) / 1e9 * packets); n < due; n++ {
				binary.BigEndian.PutUint64(stamp, uint64(i)<<56|uint64(n))
				binary.BigEndian.PutUint64(stamp[8:], uint64(monotonic()))
				if _, err := unix.Write(int(fd), frame); err != nil && err != unix.EAGAIN {
					failed = fmt.Errorf("write to %s: %w", tapName(i), err)
					return
				}
				if n&15 == 15 && monotonic()-now > int64(5*time.Millisecond) { // too slow to keep up: skip the backlog
					begin = monotonic() - int64(float64(n)/packets*1e9)
					break
				}
			}
			offered.Store(n)
			pause := unix.NsecToTimespec(int64(burstEvery))
			_ = unix.Nanosleep(&pause, nil)
		}
	})
	return cmp.Or(failed, err)
}

// arrivals are what the sink received from one guest.
type arrivals struct {
	packets int64
	delay   float64 // ns, sum over all frames
	jitter  float64 // ns, sum of the differences between consecutive frames
	last    float64
	late    [1000]int64 // histogram of delays in steps of 100 us
}

// collect counts what arrives from a time on until stop is set.
func (b *tapBed) collect(from int64, stop *atomic.Bool, out []arrivals) {
	buf := make([]byte, 2048)
	for !stop.Load() {
		n, err := unix.Read(b.sink, buf)
		if err != nil || n < frameStamp {
			continue
		}
		now := monotonic()
		guest, sent := int(buf[0]), int64(binary.BigEndian.Uint64(buf[8:]))
		if sent < from || guest >= len(out) {
			continue
		}
		a := &out[guest]
		delay := float64(now - sent)
		if a.packets > 0 {
			a.jitter += max(delay-a.last, a.last-delay)
		}
		a.packets, a.last, a.delay = a.packets+1, delay, a.delay+delay
		a.late[min(len(a.late)-1, int(delay/1e5))]++
	}
}
