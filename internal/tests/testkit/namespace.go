package testkit

import (
	"errors"
	"os"
	"strings"
)

// PrivateMounts returns an error with a remedy if no mount namespace can have mounts of its own: in a plain chroot, where / is not a
// mount point, the kernel refuses to make the mounts private.
func PrivateMounts() error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if mountedAtRoot(string(mounts)) {
		return nil
	}
	return errors.New("/ is not a mount point here, as in a plain chroot, so no namespace can have mounts of its own: " +
		"use pivot_root, as scripts/fresh does, or a container")
}

func mountedAtRoot(mountinfo string) bool {
	for line := range strings.Lines(mountinfo) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == "/" {
			return true
		}
	}
	return false
}
