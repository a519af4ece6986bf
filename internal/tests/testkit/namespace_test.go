package testkit

import "testing"

func TestMountedAtRoot(t *testing.T) {
	for text, want := range map[string]bool{
		"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 0:4 / /proc rw - proc proc rw\n": true,
		"23 22 0:4 / /proc rw - proc proc rw\n":                                      false, // in a chroot: mounts outside are not listed
		"":                                                                           false,
	} {
		if got := mountedAtRoot(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
