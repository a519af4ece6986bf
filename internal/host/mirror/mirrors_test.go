package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"sluice/internal/host/kernel/kerneltest"
	"sluice/internal/model"
)

// openerEnv makes this test binary a process that opens dual and notPinned and waits to be killed. Its value is the mount point of
// the BPF file system.
const openerEnv = "SLUICE_TEST_OPEN_DUAL_PATHS"

// notPinned is a dual path that the opener opens without a BPF file system.
var notPinned = DualPath{MAC: kerneltest.Other, Tap: "tap1", PF: "pf0"}

func openAndWait() {
	ctx := context.Background()
	for _, o := range []struct {
		bpffs string
		dual  DualPath
	}{{os.Getenv(openerEnv), dual}, {"/nonexistent", notPinned}} {
		h, err := openHost(options{BPFFS: o.bpffs})
		if err == nil {
			var note string
			if note, err = h.OpenDualPath(ctx, o.dual); note != "" {
				err = errors.New(note)
			}
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fmt.Println("open")
	select {}
}

// TestDualPathSurvivesKill kills the process that opened a dual path. Its other one, which could not be pinned, ends with it; the
// kernel has cleaned up once that happens.
func TestDualPathSurvivesKill(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	opener := kerneltest.StartAgain(t, openerEnv, h.mirrors.pins.BPFFS, "open")
	reachesBoth(t, l)
	kerneltest.Must(t, opener.Process.Kill())
	kerneltest.WaitFor(t, "the kernel to clean up after the process", func() bool {
		toOther := kerneltest.Frame(kerneltest.Other, kerneltest.Guest, "to the peer")
		l.Tap.Send(t, toOther)
		l.Peer.Expect(t, toOther)
		marker := kerneltest.Frame(kerneltest.Stray, kerneltest.Guest, "marker")
		l.Tap.Send(t, marker)
		l.Peer.Expect(t, marker)
		if string(l.PF.Next(t)) == string(marker) {
			return true
		}
		l.PF.Expect(t, marker)
		return false
	})
	reachesBoth(t, l)

	found, err := h.Mirrors(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	if diff := cmp.Diff([]Mirror{{dual, model.No}}, found); diff != "" {
		t.Fatal("what the next process finds (-want +got):", diff)
	}
	openQuietly(t, h, dual) // adopts: one mirror, not two
	reachesBoth(t, l)
	kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), DualPath{Tap: dual.Tap, MAC: dual.MAC}))
	reachesTap(t, l)
	nothingPinned(t, h)
}

func nothingPinned(t *testing.T, h *testHost) {
	t.Helper()
	left, err := filepath.Glob(h.mirrors.pins.Dir + "/*")
	kerneltest.Must(t, err)
	found, err := h.Mirrors(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	if len(left) != 0 || len(found) != 0 {
		t.Errorf("left pinned: %q, listed %v", left, found)
	}
}

func TestHostCloseKeepsDualPaths(t *testing.T) {
	l, o := kerneltest.NewLAN(t), options{BPFFS: kerneltest.BPFFS(t)}
	h, err := openHost(o)
	kerneltest.Must(t, err)
	openQuietly(t, h, dual)
	kerneltest.Must(t, h.Close())
	reachesBoth(t, l)
	h = newHostWith(t, o)
	kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), dual))
	nothingPinned(t, h)
}

// TestCloseEndsAMirrorThatAnotherHasOpen checks that CloseDualPath detaches the mirror, since removing its pin would not suffice.
func TestCloseEndsAMirrorThatAnotherHasOpen(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	openQuietly(t, h, dual)
	theirs, err := link.LoadPinnedLink(h.mirrors.pins.Path(pinName(dual)), nil)
	kerneltest.Must(t, err)
	defer theirs.Close()
	kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), dual))
	reachesTap(t, l)
}

// TestOwnersDoNotMix checks that another owner's mirror of the same tap is neither listed nor closed.
func TestOwnersDoNotMix(t *testing.T) {
	h := newHost(t)
	kerneltest.NewLAN(t)
	theirs := newHostWith(t, options{BPFFS: h.mirrors.pins.BPFFS, Owner: "somebody"})
	openQuietly(t, theirs, dual)
	nothingPinned(t, h)
	kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), dual))
	if found, err := theirs.Mirrors(kerneltest.Soon(t)); err != nil || len(found) != 1 {
		t.Errorf("the other's mirrors: %v, %v; want one", found, err)
	}
}

// TestNamespacesDoNotMix checks that daemons in two network namespaces, which may have taps of the same name, pin in different
// directories of the same file system.
func TestNamespacesDoNotMix(t *testing.T) {
	fs := kerneltest.BPFFS(t)
	here := newHostWith(t, options{BPFFS: fs})
	there := make(chan string)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		must := func(err error) {
			if err != nil {
				t.Error(err)
			}
		}
		must(unix.Unshare(unix.CLONE_NEWNET))
		h, err := openHost(options{BPFFS: fs})
		must(err)
		must(h.Close())
		there <- h.mirrors.pins.Dir
	}()
	if dir := <-there; dir == here.mirrors.pins.Dir {
		t.Errorf("both pin in %s", dir)
	}
}

// TestDirectoryOfSomebodyElse checks that an untrusted directory is ignored and reported: if everybody may write to the BPF file
// system, somebody may have created our directory first and could make us remove things.
func TestDirectoryOfSomebodyElse(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"owner":           func(dir string) error { return os.Chown(dir, 65534, 65534) },
		"owner of parent": func(dir string) error { return os.Chown(filepath.Dir(dir), 65534, 65534) },
		"mode":            func(dir string) error { return os.Chmod(dir, 0o770) },
		"symlink": func(dir string) error {
			theirs := filepath.Join(filepath.Dir(filepath.Dir(dir)), "theirs")
			return errors.Join(os.Rename(dir, theirs), os.Symlink(theirs, dir))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			kerneltest.NewLAN(t)
			dir := h.mirrors.pins.Dir
			kerneltest.Must(t, os.MkdirAll(dir, 0o700))
			kerneltest.Must(t, h.CheckMirrors())
			kerneltest.Must(t, os.Mkdir(filepath.Join(dir, pinName(notPinned)), 0o700))
			kerneltest.Must(t, spoil(dir))
			if err := h.CheckMirrors(); err == nil || !strings.Contains(err.Error(), "rm -r") {
				t.Errorf("check says %v, want how to remove it", err)
			}
			openQuietly(t, h, dual)
			found, err := h.Mirrors(kerneltest.Soon(t))
			kerneltest.Must(t, err)
			if diff := cmp.Diff([]Mirror{{dual, model.No}}, found); diff != "" {
				t.Error("mirrors (-want +got):", diff)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("there are %v, %v; want what was there", left, err)
			}
			kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), dual))
		})
	}
}

// TestMirrorOfTapThatIsGone checks that CloseDualPath removes the remains of a mirror whose tap has gone.
func TestMirrorOfTapThatIsGone(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	openQuietly(t, h, dual)
	kerneltest.Must(t, l.Tap.Close())
	kerneltest.WaitFor(t, "the mirror to be detached", func() bool {
		found, err := h.Mirrors(kerneltest.Soon(t))
		kerneltest.Must(t, err)
		return cmp.Equal([]Mirror{{dual, model.Yes}}, found)
	})
	kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), dual))
	nothingPinned(t, h)
}

// TestForeignPinsStay checks that other objects in our directory are left alone.
func TestForeignPinsStay(t *testing.T) {
	h := newHost(t)
	kerneltest.NewLAN(t)
	openQuietly(t, h, dual)
	foreign := h.mirrors.pins.Path("tap0_525400000001_pf0")
	kerneltest.Must(t, os.Mkdir(foreign, 0o700))
	found, err := h.Mirrors(kerneltest.Soon(t))
	if err != nil || len(found) != 1 {
		t.Errorf("mirrors %v, %v; want the one that is ours", found, err)
	}
	kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), dual))
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
}

func TestPinNames(t *testing.T) {
	for _, d := range []DualPath{
		dual,
		{MAC: kerneltest.Guest, Tap: "eth0.100", PF: "a_b", VLAN: 4094},
		{MAC: kerneltest.Other, Tap: "%2E_@", PF: "é"},
		{MAC: kerneltest.Guest, Tap: "tap0", PF: "pf0", Port: "pf0_3", Representor: true, Mode: All},
		{MAC: kerneltest.Guest, Tap: "pf0_3", PF: "pf0", Port: "tap0", Representor: true, Mode: Sent},
	} {
		name := pinName(d)
		if strings.ContainsAny(name, "./") {
			t.Errorf("%q cannot be pinned", name)
		}
		if back, ok := parsePin(name); !ok || back != d {
			t.Errorf("%q reads as %+v, %v; want %+v", name, back, ok, d)
		}
	}
	for _, bad := range []string{
		"", "tap0_525400000001_pf0", "tap0_5254_pf0_0", "tap0_525400000001_pf0_x", "tap0_525400000001_pf0_+1",
		"%zz_525400000001_pf0_0", "tap0_525400000001_pf0_0__all",
	} {
		if d, ok := parsePin(bad); ok {
			t.Errorf("%q reads as %+v", bad, d)
		}
	}
}

// TestWithoutBPFFS checks that a dual path opens without a BPF file system, that the consequence is logged once, and that it
// closes.
func TestWithoutBPFFS(t *testing.T) {
	l := kerneltest.NewLAN(t)
	var logged strings.Builder
	h := newHostWith(t, options{BPFFS: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	if err := h.CheckMirrors(); err == nil || !strings.Contains(err.Error(), "mount -t bpf bpf") {
		t.Errorf("check says %v, want how to mount it", err)
	}
	for range 2 { // the second adopts the first
		openQuietly(t, h, dual)
	}
	openQuietly(t, h, notPinned)
	if n := strings.Count(logged.String(), "mount -t bpf bpf"); n != 1 {
		t.Errorf("said %d times, want once:\n%s", n, logged.String())
	}
	reachesBoth(t, l)
	found, err := h.Mirrors(kerneltest.Soon(t))
	kerneltest.Must(t, err)
	if diff := cmp.Diff([]Mirror{{dual, model.No}, {notPinned, model.No}}, found); diff != "" {
		t.Error("mirrors (-want +got):", diff)
	}
	kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), notPinned))
	kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), dual))
	nothingPinned(t, h)
}

func TestCheckMirrors(t *testing.T) {
	kerneltest.Must(t, newHost(t).CheckMirrors())
}

// TestStuckMirror simulates a kernel that does not finish attaching: the Step must end in time with the FDB entry unchanged, and
// another tap's dual path must open meanwhile.
func TestStuckMirror(t *testing.T) {
	kerneltest.NoLeaks(t)
	h := newHost(t)
	kerneltest.NewLAN(t)
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "pf0"))
	stuck := make(chan struct{})
	attach := h.mirrors.attach
	ctx, cancel := context.WithCancel(t.Context())
	h.mirrors.attach = func(m mirror, p *ebpf.Program) (link.Link, error) {
		if m.mac == kerneltest.Guest {
			cancel()
			<-stuck
		}
		return attach(m, p)
	}
	if _, err := h.OpenDualPath(ctx, dual); !errors.Is(err, context.Canceled) {
		t.Errorf("stuck: %v, want context.Canceled", err)
	}
	pinnedTo(t, h, "pf0")
	openQuietly(t, h, notPinned)
	close(stuck)
	kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), dual)) // after the stuck one
	kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), notPinned))
	nothingPinned(t, h)
}

// TestDualPathWithoutMirror checks that without a mirror the FDB entry stays where the guest receives.
func TestDualPathWithoutMirror(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	h.mirrors.attach = func(mirror, *ebpf.Program) (link.Link, error) { return nil, ebpf.ErrNotSupported }
	for _, at := range []struct {
		was, want string
		port      *kerneltest.Port
	}{{"", "tap0", l.Tap}, {"tap0", "tap0", l.Tap}, {"pf0", "pf0", l.PF}} {
		if at.was != "" {
			kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, at.was))
		}
		note, err := h.OpenDualPath(kerneltest.Soon(t), dual)
		if err != nil || !strings.Contains(note, "reach one path only") {
			t.Errorf("kernel without TCX: note %q, error %v", note, err)
		}
		pinnedTo(t, h, at.want)
		f := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "to where it listens")
		l.Peer.Send(t, f)
		at.port.Expect(t, f)
	}
	kerneltest.Must(t, h.CloseDualPath(kerneltest.Soon(t), dual))
}

// TestMirrorStandsBeforeTheEntryMoves checks that while a guest uses its VF, no frame ever reaches only the tap.
func TestMirrorStandsBeforeTheEntryMoves(t *testing.T) {
	h, l := newHost(t), kerneltest.NewLAN(t)
	kerneltest.Must(t, h.PinFDB(kerneltest.Soon(t), kerneltest.Guest, 0, "pf0"))
	attach := h.mirrors.attach
	h.mirrors.attach = func(m mirror, p *ebpf.Program) (link.Link, error) {
		f := kerneltest.Frame(kerneltest.Guest, kerneltest.Other, "while the dual path opens")
		l.Peer.Send(t, f)
		l.PF.Expect(t, f)
		return attach(m, p)
	}
	openQuietly(t, h, dual)
	reachesBoth(t, l)
}

func TestMirrorOfNoInterface(t *testing.T) {
	m := mirror{tap: 1 << 30, out: 1, mac: kerneltest.Guest}
	prog, err := m.load()
	kerneltest.Must(t, err)
	defer prog.Close()
	if _, err := m.attach(prog); !errors.Is(err, unix.ENODEV) {
		t.Errorf("mirror of no interface: %v, want ENODEV", err)
	}
}

// FuzzPinNames checks that pin names are read back unchanged, and that arbitrary other names do no harm.
func FuzzPinNames(f *testing.F) {
	f.Add("tap0", "pf0", "", 0, uint8(0), pinName(dual))
	f.Add("tap0", "pf0", "", 3, uint8(2), "tap0_525400000001_pf0_0__vf")
	f.Add("tap0", "pf0", "pf0_3", 0, uint8(1), "tap0_525400000001_pf0_0_pf0%5F3")
	f.Add("eth0.5", "a_b", "", 4094, uint8(0), "eth0%2E5_525400000001_a%5Fb_4094")
	f.Add("%2E", "", "", -1, uint8(3), "__%_%2")
	f.Fuzz(func(t *testing.T, tap, pf, representor string, vlan int, mode uint8, foreign string) {
		d := DualPath{MAC: kerneltest.Guest, Tap: tap, PF: pf, VLAN: vlan, Port: representor, Representor: representor != "", Mode: []Mode{Copy, Both, OpenVF, VFAlone}[mode%4]}
		name := pinName(d)
		if back, ok := parsePin(name); !ok || back != d || strings.ContainsAny(name, "./") {
			t.Errorf("%+v is pinned as %q, which reads as %+v, %v", d, name, back, ok)
		}
		parsePin(foreign)
	})
}
