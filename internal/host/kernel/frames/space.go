package frames

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/base/sleep"
	"sluice/internal/host/sysif"
)

// Space is an unnamed network namespace. It ends with Close or with the process; the kernel then returns its hardware interfaces
// to the host's initial namespace.
type Space struct {
	fd   int
	work chan func()
	done chan struct{}
}

// NewSpace creates a Space. It needs CAP_SYS_ADMIN.
func NewSpace() (*Space, error) {
	s := &Space{work: make(chan func()), done: make(chan struct{})}
	made := make(chan error)
	go s.run(made)
	if err := <-made; err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	return s, nil
}

// run is the thread in the namespace. It is never unlocked, so that the thread ends with the goroutine.
func (s *Space) run(made chan<- error) {
	runtime.LockOSThread()
	defer close(s.done)
	err := unix.Unshare(unix.CLONE_NEWNET)
	if err == nil {
		s.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	made <- err
	if err != nil {
		return
	}
	for f := range s.work {
		f()
	}
}

// FD returns a descriptor of the namespace, valid until Close.
func (s *Space) FD() int { return s.fd }

// Close ends the namespace, unless sockets in it are still open.
func (s *Space) Close() error {
	close(s.work)
	<-s.done
	return unix.Close(s.fd)
}

// in runs f in the namespace; a nil Space means that of the process.
func (s *Space) in(f func() error) (err error) {
	if s == nil {
		return f()
	}
	ran := make(chan struct{})
	s.work <- func() { defer close(ran); err = f() }
	<-ran
	return err
}

// Up sets an interface up and waits until it has carrier.
func (s *Space) Up(ctx context.Context, name string) error {
	err := s.in(func() error { return setUp(name) })
	for err == nil {
		var is bool
		if is, err = s.carrier(name); is || err != nil {
			break
		}
		if ended := sleep.For(ctx, 10*time.Millisecond); ended != nil {
			err = fmt.Errorf("it has no carrier: %w", ended)
		}
	}
	if err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

// Has reports whether there is an interface of that name.
func (s *Space) Has(name string) bool {
	return s.in(func() error { _, err := index(name); return err }) == nil
}

// carrier asks the driver by ethtool, because the interface flags are updated later.
func (s *Space) carrier(name string) (is bool, err error) {
	value := make([]byte, 8) // struct ethtool_value
	binary.NativeEndian.PutUint32(value, unix.ETHTOOL_GLINK)
	err = s.in(func() error {
		fd, err := sysif.EthtoolSocket()
		if err != nil {
			return err
		}
		return errors.Join(sysif.EthtoolCall(fd, name, value), unix.Close(fd))
	})
	return binary.NativeEndian.Uint32(value[4:]) != 0, err
}

func setUp(name string) error {
	return withRequest(name, func(fd int, r *unix.Ifreq) error {
		if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, r); err != nil {
			return err
		}
		r.SetUint16(r.Uint16() | unix.IFF_UP)
		return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
	})
}

func withRequest(name string, use func(fd int, r *unix.Ifreq) error) error {
	r, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	fd, err := sysif.EthtoolSocket()
	if err != nil {
		return err
	}
	return errors.Join(use(fd, r), unix.Close(fd))
}

// index returns the index of an interface in the namespace of the calling thread.
func index(name string) (n int, err error) {
	err = withRequest(name, func(fd int, r *unix.Ifreq) error {
		if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, r); err != nil {
			return err
		}
		n = int(r.Uint32())
		return nil
	})
	return n, err
}
