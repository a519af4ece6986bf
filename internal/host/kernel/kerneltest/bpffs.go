package kerneltest

import (
	"testing"

	"golang.org/x/sys/unix"
)

// BPFFS mounts a BPF file system of the test's own and returns where. What is pinned there
// is gone after the test.
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
