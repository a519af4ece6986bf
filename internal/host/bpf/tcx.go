// Package bpf attaches eBPF programs to interfaces (TCX) and pins them in the BPF file system, where they outlive the process.
package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

// AttachTCX attaches a program to an interface.
func AttachTCX(o link.TCXOptions) (link.Link, error) {
	l, err := link.AttachTCX(o)
	if errors.Is(err, ebpf.ErrNotSupported) {
		return nil, fmt.Errorf("%w: the kernel is older than Linux 6.6, the first with TCX: %w", model.ErrPermanent, err)
	}
	if err != nil {
		return nil, fmt.Errorf("attach eBPF program: %w", err)
	}
	return l, nil
}

// CheckTCX returns the reason why no program can be attached to an interface, by trying one that does not exist.
func CheckTCX() error {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:         ebpf.SchedCLS,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, TCXNext), asm.Return()},
	})
	if err != nil {
		return fmt.Errorf("load eBPF program: %w", err)
	}
	defer prog.Close()
	const nowhere = 1<<31 - 1
	l, err := AttachTCX(link.TCXOptions{Interface: nowhere, Program: prog, Attach: ebpf.AttachTCXIngress})
	switch {
	case err == nil:
		return l.Close()
	case errors.Is(err, unix.ENODEV):
		return nil
	}
	return err
}

// Offsets of struct __sk_buff (linux/bpf.h).
const (
	SKBVLANPresent    = 20
	SKBIngressIfindex = 36
)

// TCXNext is the verdict that continues with the next program on the tap, and after the last one passes the frame.
const TCXNext = -1

// NetworkOrder converts a 16-bit number to the value that a host-order load from a frame returns.
func NetworkOrder(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

// AttachedTo returns the index of the interface that a link is attached to, 0 if it has gone, -1 if unknown.
func AttachedTo(l link.Link) int {
	info, err := l.Info()
	if err != nil {
		return -1
	}
	if tcx := info.TCX(); tcx != nil {
		return int(tcx.Ifindex)
	}
	return -1
}

// Detached reports whether a link is no longer attached to any interface.
func Detached(l link.Link) model.Tri {
	i := AttachedTo(l)
	if i < 0 {
		return model.Unknown
	}
	return model.TriOf(i == 0)
}

// TCXDrop is the verdict that drops a frame.
const TCXDrop = 2

// WireOverhead is the bytes that Ethernet adds to each frame: preamble, checksum and gap.
const WireOverhead = 24
