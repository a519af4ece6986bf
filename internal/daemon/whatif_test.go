package daemon

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/api/v1"
	"sluice/internal/edge/history"
	"sluice/internal/model"
)

// The process has the lowest priority and no capabilities, and the daemon keeps its own.
func TestRunHumbly(t *testing.T) {
	before := status(t)
	for range 50 { // from any thread
		var out bytes.Buffer
		cmd := exec.Command("sh", "-c", `grep -E '^(CapPrm|CapEff|CapInh):' /proc/self/status; cut -d' ' -f19 /proc/self/stat`)
		cmd.Stdout = &out
		if err := runHumbly(cmd); err != nil {
			t.Fatal(err)
		}
		const want = "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n19\n"
		if out.String() != want {
			t.Fatalf("have %q, want %q", out.String(), want)
		}
	}
	if after := status(t); after != before {
		t.Errorf("this process had %q and has %q", before, after)
	}
}

// status returns capabilities and no_new_privs of this process's main thread.
func status(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, l := range strings.Split(string(data), "\n") {
		if strings.HasPrefix(l, "Cap") || strings.HasPrefix(l, "NoNewPrivs") {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "\n")
}

// The real sluice computes what other policies would have done.
func TestComputeWhatIf(t *testing.T) {
	dir := t.TempDir()
	program := build(t)
	t.Setenv("PATH", dir)
	past := &history.Past{Rules: model.Rules{Policy: "fair", Interval: time.Minute}, Snapshot: &model.Snapshot{PFs: []model.PF{
		{Name: "pf0", Network: "br0", Managed: true, VFs: []model.VF{{ID: model.VFID{PF: "pf0"}, Owner: model.OwnerFree}}},
	}}, Load: api.History{Step: 10, VMs: []api.VMHistory{{Name: "a", ID: "a"}}}}
	v := &past.Load.VMs[0]
	for range 30 {
		v.Virtio, v.VF, v.Bytes = append(v.Virtio, 5000), append(v.VF, 0), append(v.Bytes, 1e6)
	}
	_, err := computeWhatIf(t.Context(), past)
	var e *api.Error
	if !errors.As(err, &e) || e.Remedy == "" {
		t.Errorf("without sluice: %v", err)
	}
	if err := os.Symlink(program, filepath.Join(dir, "sluice")); err != nil {
		t.Fatal(err)
	}
	list, err := computeWhatIf(t.Context(), past)
	if err != nil || len(list) < 3 || list[0].Gross < 0.9 {
		t.Fatalf("%+v, %v", list, err)
	}
	past.Snapshot.PFs = nil
	if _, err := computeWhatIf(t.Context(), past); err == nil || !strings.Contains(err.Error(), "no PF is listed") {
		t.Errorf("without PFs: %v", err)
	}
}

func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice")
	if out, err := exec.Command("go", "build", "-o", path, "sluice/cmd/sluice").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}
