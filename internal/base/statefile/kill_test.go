package statefile

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestMain is also the process that TestKilled kills, which replaces a file forever.
func TestMain(m *testing.M) {
	if path := os.Getenv("SLUICE_TEST_REPLACE"); path != "" {
		for {
			if err := Replace(path, make([]byte, 4<<20)); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

// TestKilled checks that writing a file again leaves nothing of a writer that was killed.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for range 5 {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "SLUICE_TEST_REPLACE="+path)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // at any moment; whether it has begun to write does not matter
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	want := []byte("new")
	if err := Replace(path, want); err != nil {
		t.Fatal(err)
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, want) {
		t.Errorf("%d bytes, %v", len(have), err)
	}
	if list, _ := os.ReadDir(filepath.Dir(path)); len(list) != 1 {
		t.Errorf("left behind: %v", list)
	}
}

// TestReplacedAtOnce checks that concurrent writers of one file, which should not exist, leave the content of one of them.
func TestReplacedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	done := make(chan error)
	for i := range 4 {
		go func() {
			var err error
			for range 20 {
				if e := Replace(path, bytes.Repeat([]byte{byte('a' + i)}, 1000*(i+1))); e != nil {
					err = e
				}
			}
			done <- err
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil || len(have) == 0 || len(have) != 1000*(int(have[0]-'a')+1) || bytes.Count(have, have[:1]) != len(have) {
		t.Errorf("%d bytes, %v", len(have), err)
	}
	if list, _ := os.ReadDir(filepath.Dir(path)); len(list) != 1 {
		t.Errorf("left behind: %v", list)
	}
}
