package daemon

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// releasePages gives the pages of binary and libraries back to the kernel, which reads
// those that are needed again. Starting touches most of them once: every package's
// tables, libvirt's libraries, the fonts that only `sluice sim` draws with. It returns how
// many bytes of mappings it offered. A kernel that does not know the call keeps them.
func releasePages() (int64, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var sum int64
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		var from, to uintptr
		var mode string
		if _, err := fmt.Sscanf(sc.Text(), "%x-%x %s", &from, &to, &mode); err != nil {
			return sum, fmt.Errorf("/proc/self/maps: %q: %w", sc.Text(), err)
		}
		if strings.HasPrefix(mode, "rw") || !strings.Contains(sc.Text(), " /") {
			continue // what was written is not in the file
		}
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, from, to-from, unix.MADV_PAGEOUT); errno != 0 {
			return sum, fmt.Errorf("give pages of %s back: %w", sc.Text(), errno)
		}
		sum += int64(to - from)
	}
	return sum, sc.Err()
}
