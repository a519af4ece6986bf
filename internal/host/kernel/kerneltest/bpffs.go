package kerneltest

import (
	"testing"

	"golang.org/x/sys/unix"
)

// BPFFS mounts a private BPF file system for the test and returns its path. It is unmounted after the test, which removes all
// pins.
func BPFFS(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, "mode=0700"); err != nil {
		t.Fatal("mount a BPF file system:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error("unmount the BPF file system:", err)
		}
	})
	return dir
}
