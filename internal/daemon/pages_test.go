package daemon

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// mapped is the resident memory of this process that lies in files, in KiB.
func mapped(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var n int
		if rest, ok := strings.CutPrefix(line, "RssFile:"); ok {
			for _, c := range rest {
				if c >= '0' && c <= '9' {
					n = 10*n + int(c-'0')
				}
			}
			return n
		}
	}
	t.Fatal("no RssFile in /proc/self/status")
	return 0
}

func TestReleasePages(t *testing.T) {
	before := mapped(t)
	if n, err := releasePages(); err != nil || n < 1<<20 {
		if err == unix.EINVAL { //nolint:errorlint // as it comes from the kernel
			t.Skip("this kernel does not page out on request")
		}
		t.Fatalf("offered %d bytes, %v", n, err)
	}
	// Pages that are dirty still, or that others have mapped too, stay.
	if after := mapped(t); after >= before {
		t.Errorf("%d KiB of files are mapped, %d were before", after, before)
	}
}
