package journal

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// A state_dir that cannot be used at the start does not prevent observing and repairing, and is used once it can be.
func TestLate(t *testing.T) {
	dir := t.TempDir()
	blocked := filepath.Join(dir, "file")
	must(t, os.WriteFile(blocked, nil, 0o600)) // not a directory
	path := filepath.Join(blocked, "state", "journal")
	log := slog.New(slog.DiscardHandler)
	j, left, trouble, err := OpenLate(path, log)
	if err != nil || trouble == nil || len(left) != 0 {
		t.Fatalf("trouble %v, error %v", trouble, err)
	}
	if err := j.Begin(someMove("a")); err == nil {
		t.Error("a Move begins without a journal")
	}
	must(t, j.End(someMove("a")))
	must(t, os.Remove(blocked))
	must(t, j.Begin(someMove("a")))
	must(t, j.Begin(someMove("b")))
	must(t, j.End(someMove("a")))
	must(t, j.Close())
	j, left, trouble, err = OpenLate(path, log)
	if err != nil || trouble != nil || len(left) != 1 || left[0].VM != "b" {
		t.Errorf("left %v, trouble %v, error %v; want b", left, trouble, err)
	}
	must(t, j.Close())
	must(t, os.WriteFile(path, []byte("nonsense\nmore\n"), 0o600))
	if _, _, trouble, err := OpenLate(path, log); err == nil || trouble != nil {
		t.Errorf("a damaged journal: trouble %v, error %v; want an error", trouble, err)
	}
}
