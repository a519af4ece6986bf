package vpflab

import (
	"os"
	"strings"
	"testing"
)

// ForTest opens a lab for one test; it ends with the test. If the test fails, t logs where the logs are. $SLUICE_LAB_ARTIFACTS and
// $SLUICE_LAB_KEEP have the same meaning as in package lab.
func ForTest(t testing.TB) *Host {
	t.Helper()
	base := os.Getenv("SLUICE_LAB_ARTIFACTS")
	if base != "" {
		if err := os.MkdirAll(base, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	artifacts, err := os.MkdirTemp(base, "vpflab-"+strings.ReplaceAll(t.Name(), "/", "_")+"-logs-")
	if err != nil {
		t.Fatal(err)
	}
	h, err := Open(t.Context(), Options{ArtifactDir: artifacts, Progress: testLog{t}})
	if err != nil {
		t.Fatalf("lab: %v (logs: %s)", err, artifacts)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Logf("lab: close: %v", err)
		}
		if !t.Failed() && os.Getenv("SLUICE_LAB_KEEP") == "" {
			os.RemoveAll(artifacts)
		} else {
			t.Logf("lab: logs are in %s", artifacts)
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
