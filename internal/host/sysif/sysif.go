// Package sysif contains what the kernel-facing packages share: netlink connections, sysfs and procfs as file trees, calls that
// return by their deadline even if the kernel does not, and errors that name operation and subject.
package sysif

import (
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sys/unix"

	"sluice/internal/base/rtnl"
)

// Kernel holds the shared connections. Interface names are those of the network namespace in which it was opened.
type Kernel struct {
	Read    *rtnl.Conn // for queries, so that a slow change does not delay them
	Write   *rtnl.Conn
	Generic *rtnl.Conn
	Ioctl   int // a socket for ethtool ioctls
	Sys     Tree
	Proc    Tree
	Busy    *Locks
	Log     *slog.Logger
}

// Concurrent requests per connection. A driver may take seconds for a change.
const (
	Readers = 2
	writers = 4
)

// Open opens the sockets; Close releases them. sysfs and procfs are the mount points, "" for the usual ones; a nil logger
// discards.
func Open(sysfs, procfs string, log *slog.Logger) (*Kernel, error) {
	k := &Kernel{Ioctl: -1, Sys: NewTree(sysfs, "/sys"), Proc: NewTree(procfs, "/proc"), Busy: NewLocks(), Log: log}
	if k.Log == nil {
		k.Log = slog.New(slog.DiscardHandler)
	}
	if err := k.dial(); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

func (k *Kernel) dial() (err error) {
	if k.Read, err = rtnl.Dial(Readers); err != nil {
		return err
	}
	if k.Write, err = rtnl.Dial(writers); err != nil {
		return err
	}
	if k.Generic, err = rtnl.DialGeneric(writers); err != nil {
		return err
	}
	k.Ioctl, err = EthtoolSocket()
	return err
}

// Close closes the sockets.
func (k *Kernel) Close() (err error) {
	for _, c := range []*rtnl.Conn{k.Read, k.Write, k.Generic} {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	if k.Ioctl >= 0 {
		err = errors.Join(err, unix.Close(k.Ioctl))
	}
	return err
}

// NetworkNamespace returns the inode number of the network namespace of this process.
func NetworkNamespace() (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return 0, fmt.Errorf("find the network namespace: %w", err)
	}
	return st.Ino, nil
}
