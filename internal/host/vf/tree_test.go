package vf

import (
	"embed"
	"os"
	"path/filepath"
	"testing"

	"sluice/internal/host/kernel/kerneltest"
)

// testdata is in the binary, so that it can be copied to another host and run there.
//
//go:embed testdata
var testdata embed.FS

// golden compares got with a file in testdata; with SLUICE_UPDATE=1 it writes that file for the next run.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("SLUICE_UPDATE") != "" {
		kerneltest.Must(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := testdata.ReadFile(file)
	kerneltest.Must(t, err)
	if got != string(want) {
		t.Errorf("differs from %s:\n%s\nwant:\n%s", file, got, want)
	}
}
