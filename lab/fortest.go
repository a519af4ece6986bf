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
	base := os.Getenv("SLUICE_LAB_ARTIFACTS")
	if base == "" {
		base = os.TempDir()
	}
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\ :`, r) {
			return '_'
		}
		return r
	}, t.Name())
	if err := os.MkdirAll(base, 0o755); err != nil {
		t.Fatal(err)
	}
	artifacts, err := os.MkdirTemp(base, "lab-"+name+"-")
	if err != nil {
		t.Fatal(err)
	}
	o.ArtifactDir, o.Progress = artifacts, testLog{t}
	h, err := Open(t.Context(), o)
	if err != nil {
		t.Fatalf("lab: %v (artifacts: %s)", err, artifacts)
	}
	t.Cleanup(func() {
		if t.Failed() {
			// t's own context has ended by now.
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			if err := h.Collect(ctx); err != nil {
				t.Logf("lab: collecting logs: %v", err)
			}
			t.Logf("lab: logs are in %s", artifacts)
		}
		if err := h.Close(); err != nil {
			t.Logf("lab: close: %v", err)
		}
		if !t.Failed() && os.Getenv("SLUICE_LAB_KEEP") == "" {
			os.RemoveAll(artifacts)
		} else if abs, err := filepath.Abs(artifacts); err == nil {
			t.Logf("lab: artifacts: %s", abs)
		}
	})
	return h
}

// testLog writes progress to a test's log, line by line.
type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Helper()
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}
