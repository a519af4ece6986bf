package kernel

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

// attachTCX attaches a program to an interface.
func attachTCX(o link.TCXOptions) (link.Link, error) {
	l, err := link.AttachTCX(o)
	if errors.Is(err, ebpf.ErrNotSupported) {
		return nil, fmt.Errorf("%w: the kernel is older than Linux 6.6, the first with TCX: %w", model.ErrPermanent, err)
	}
	if err != nil {
		return nil, fmt.Errorf("attach eBPF program: %w", err)
	}
	return l, nil
}

// checkTCX says why no program can be attached to any interface, by trying it on one that
// does not exist.
func checkTCX() error {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:         ebpf.SchedCLS,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, tcxNext), asm.Return()},
	})
	if err != nil {
		return fmt.Errorf("load eBPF program: %w", err)
	}
	defer prog.Close()
	const nowhere = 1<<31 - 1
	l, err := attachTCX(link.TCXOptions{Interface: nowhere, Program: prog, Attach: ebpf.AttachTCXIngress})
	switch {
	case err == nil:
		return l.Close()
	case errors.Is(err, unix.ENODEV):
		return nil
	}
	return err
}
