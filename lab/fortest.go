package lab

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ForTest opens a lab for one test, with these guests running. The lab ends
// with the test. If the test fails, logs are collected and t says where.
//
// Artifacts go under $SLUICE_LAB_ARTIFACTS, else the temporary directory; a
// test that passes leaves none there unless $SLUICE_LAB_KEEP is set.
func ForTest(t testing.TB, guests ...string) *Host {
	t.Helper()
	return OpenForTest(t, Options{Guests: guests})
}

// OpenForTest is ForTest with options; it sets ArtifactDir and Progress.
func OpenForTest(t testing.TB, o Options) *Host {
	t.Helper()
	o.ArtifactDir, o.Progress = Artifacts(t, "lab"), TestLog{t}
	h, err := Open(t.Context(), o)
	if err != nil {
		t.Fatalf("lab: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			// t's own context has ended by now.
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			if err := h.Collect(ctx); err != nil {
				t.Logf("lab: collecting logs: %v", err)
			}
		}
		if err := h.Close(); err != nil {
			t.Logf("lab: close: %v", err)
		}
	})
	return h
}

// Artifacts creates the directory for the logs of a test's lab. If the test fails, t says where it is.
func Artifacts(t testing.TB, kind string) string {
	t.Helper()
	base := os.Getenv("SLUICE_LAB_ARTIFACTS")
	if base == "" {
		base = os.TempDir()
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		t.Fatal(err)
	}
	name := strings.NewReplacer("/", "_", `\`, "_", " ", "_", ":", "_").Replace(t.Name())
	dir, err := os.MkdirTemp(base, kind+"-"+name+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() && os.Getenv("SLUICE_LAB_KEEP") == "" {
			os.RemoveAll(dir)
			return
		}
		if abs, err := filepath.Abs(dir); err == nil {
			dir = abs
		}
		t.Logf("lab: logs are in %s", dir)
	})
	return dir
}

// TestLog writes progress to a test's log, line by line.
type TestLog struct{ T testing.TB }

func (l TestLog) Write(p []byte) (int, error) {
	l.T.Helper()
	l.T.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}
