package vpflab

import (
	"testing"

	"sluice/lab"
)

// ForTest opens a lab for one test; it ends with the test. If the test fails, t logs where the logs are. $SLUICE_LAB_ARTIFACTS and
// $SLUICE_LAB_KEEP have the same meaning as in package lab.
func ForTest(t testing.TB) *Host {
	t.Helper()
	h, err := Open(t.Context(), Options{ArtifactDir: lab.Artifacts(t, "vpflab-logs"), Progress: lab.TestLog{T: t}})
	if err != nil {
		t.Fatalf("lab: %v", err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Logf("lab: close: %v", err)
		}
	})
	return h
}
