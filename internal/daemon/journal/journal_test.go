package journal

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/model"
)

func someMove(vm string) model.Move {
	return model.Move{
		Kind: model.MovePlug, VM: model.VMID(vm), VMName: vm, VF: model.VFID{PF: "pf0", Index: len(vm)},
		Steps: []model.Step{{Kind: model.StepAttach, Subject: model.Subject{VM: model.VMID(vm)}}},
	}
}

func open(t *testing.T, path string) (*File, []model.Move) {
	t.Helper()
	j, left, _ := openLogged(t, path)
	return j, left
}

// openLogged also returns what was logged when opening.
func openLogged(t *testing.T, path string) (*File, []model.Move, string) {
	t.Helper()
	var log strings.Builder
	j, left, err := Open(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j, left, log.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestJournalRemembersWhatWasNotEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "journal")
	j, left := open(t, path)
	if len(left) != 0 {
		t.Fatalf("a new journal has %d moves", len(left))
	}
	a, b := someMove("a"), someMove("bb")
	must(t, j.Begin(a))
	must(t, j.Begin(b))
	must(t, j.End(a))
	_, left = open(t, path)
	if d := cmp.Diff([]model.Move{b}, left); d != "" {
		t.Error(d)
	}
	must(t, j.End(b))
	if st, err := os.Stat(path); err != nil || st.Size() != 0 {
		t.Errorf("nothing is under way, but the journal has %v bytes (%v)", st.Size(), err)
	}
}

// Moves are identified by VM and VF.
func TestJournalTellsMovesApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := open(t, path)
	one, two, three := someMove("a"), someMove("a"), someMove("b")
	two.VF.Index = 7
	for _, m := range []model.Move{one, two, three} { // one and two share the VM, one and three the VF
		must(t, j.Begin(m))
	}
	must(t, j.End(two))
	must(t, j.End(three))
	_, left := open(t, path)
	if d := cmp.Diff([]model.Move{one}, left); d != "" {
		t.Error(d)
	}
}

func TestJournalDropsATornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := open(t, path)
	must(t, j.Begin(someMove("a")))
	must(t, j.Begin(someMove("bb")))
	whole, err := os.ReadFile(path)
	must(t, err)
	first := strings.IndexByte(string(whole), '\n') + 1
	for cut := len(whole) - 1; cut > first; cut -= 7 {
		must(t, os.WriteFile(path, whole[:cut], 0o600))
		j, left, log := openLogged(t, path)
		if d := cmp.Diff([]model.Move{someMove("a")}, left); d != "" {
			t.Fatalf("cut at %d: %s", cut, d)
		}
		if !strings.Contains(log, "line 2: it is incomplete") {
			t.Fatalf("cut at %d: log %q", cut, log)
		}
		must(t, j.Begin(someMove("ccc"))) // not after half a line
		_, left = open(t, path)
		if d := cmp.Diff([]model.Move{someMove("a"), someMove("ccc")}, left); d != "" {
			t.Fatalf("cut at %d and written again: %s", cut, d)
		}
	}
}

// fullDisk writes half of the data and fails, or writes all of it and fails to sync.
type fullDisk struct {
	file
	half, unsynced bool
}

func (f *fullDisk) Write(b []byte) (int, error) {
	if !f.half {
		return f.file.Write(b)
	}
	n, _ := f.file.Write(b[:len(b)/2])
	return n, errors.New("no space left on device")
}

func (f *fullDisk) Sync() error {
	if f.unsynced {
		return errors.New("input/output error")
	}
	return f.file.Sync()
}

func TestJournalGoesOnAfterAFailedWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := open(t, path)
	must(t, j.Begin(someMove("a")))
	disk := &fullDisk{file: j.file}
	j.file = disk
	want := []model.Move{someMove("a")}
	for _, bad := range []fullDisk{{half: true}, {unsynced: true}} {
		disk.half, disk.unsynced = bad.half, bad.unsynced
		if err := j.Begin(someMove("bb")); err == nil {
			t.Fatalf("%+v: no error", bad)
		}
		disk.half, disk.unsynced = false, false
		next := someMove(strings.Repeat("c", len(want)+2))
		must(t, j.Begin(next))
		want = append(want, next)
		_, left := open(t, path)
		if d := cmp.Diff(want, left); d != "" {
			t.Errorf("half %v, unsynced %v: %s", bad.half, bad.unsynced, d)
		}
	}
}

func TestJournalRefusesDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	good := line(t, someMove("a"))
	for name, tc := range map[string]struct{ text, want string }{
		"garbage":   {good + "garbage\n" + good, "line 2: its checksum is wrong"},
		"long line": {good + strings.Repeat("x", maxLine+1), "line 2 has more than 1048576 bytes"},
	} {
		must(t, os.WriteFile(path, []byte(tc.text), 0o600))
		_, _, err := Open(path, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "fsck") {
			t.Errorf("%s: error %v, want %q and the remedy", name, err, tc.want)
		}
	}
}

// line returns the journal's line for the beginning of a move.
func line(t *testing.T, m model.Move) string {
	t.Helper()
	b, err := encodeLine(entry{Begin: &m})
	must(t, err)
	return string(b)
}

// Whichever bit of a line flips, the line is not taken for another one.
func TestJournalSeesEveryFlippedBit(t *testing.T) {
	good := line(t, someMove("a"))
	for i := range 8 * len(good) {
		bad := []byte(good)
		bad[i/8] ^= 1 << (i % 8)
		if e, err := decodeLine(bad); err == nil {
			t.Fatalf("bit %d of byte %d: %q was read as %+v", i%8, i/8, bad, e)
		}
	}
}

func TestJournalLogsADamagedLastLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	last := strings.Replace(line(t, someMove("bb")), "plug", "plvg", 1) // still JSON, but not what was written
	must(t, os.WriteFile(path, []byte(line(t, someMove("a"))+last), 0o600))
	_, left, log := openLogged(t, path)
	if d := cmp.Diff([]model.Move{someMove("a")}, left); d != "" {
		t.Error(d)
	}
	if !strings.Contains(log, "line 2: its checksum is wrong") {
		t.Errorf("log %q", log)
	}
	if _, _, log = openLogged(t, filepath.Join(t.TempDir(), "new")); log != "" {
		t.Errorf("a new journal: log %q", log)
	}
}

// A file that is not regular is refused at once, and one that is too long is not read.
func TestJournalRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	must(t, os.Symlink("/dev/zero", filepath.Join(dir, "zero")))
	must(t, os.WriteFile(filepath.Join(dir, "huge"), nil, 0o600))
	must(t, os.Truncate(filepath.Join(dir, "huge"), 300<<20))
	for name, want := range map[string]string{"fifo": "not a regular file", "zero": "not a regular file", "huge": "314572800 bytes"} {
		_, _, err := Open(filepath.Join(dir, name), slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJournalRefusesToWriteWhatItCannotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := open(t, path)
	big := someMove("a")
	big.Reason.Detail = strings.Repeat("x", maxLine)
	if err := j.Begin(big); err == nil {
		t.Error("a line too long was written")
	}
	must(t, j.Begin(someMove("bb")))
	if _, left := open(t, path); len(left) != 1 {
		t.Errorf("left %+v", left)
	}
}

// While something is always under way the file is never emptied, but still stays small.
func TestJournalStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := open(t, path)
	always, last := someMove("always"), someMove("last")
	last.Reason.Detail = strings.Repeat("x", 100<<10)
	must(t, j.Begin(always))
	for range 100 {
		must(t, j.Begin(last))
		must(t, j.End(last))
	}
	st, err := os.Stat(path)
	must(t, err)
	if st.Size() > minRewrite+maxLine {
		t.Errorf("%d bytes for one move", st.Size())
	}
	must(t, j.Begin(last))
	_, left := open(t, path)
	if d := cmp.Diff([]model.Move{always, last}, left); d != "" {
		t.Error(d)
	}
}

// starve lets the process open n more files until the returned function is called.
func starve(t *testing.T, n int) (feed func()) {
	t.Helper()
	var was syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was))
	few := was
	few.Cur = min(few.Cur, 512)
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	var all []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		all = append(all, f)
	}
	for range n {
		must(t, all[0].Close())
		all = all[1:]
	}
	return func() {
		for _, f := range all {
			_ = f.Close()
		}
		must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was))
	}
}

// If the new file is in place but the directory could not be synced, later entries must go to the new file, as the old one is
// gone.
func TestJournalServesOnAfterHalfARewrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := open(t, path)
	a, b := someMove("a"), someMove("bb")
	must(t, j.Begin(a))
	feed := starve(t, 1) // for the new file, not for the directory
	err := j.writeAnew()
	feed()
	if err == nil {
		t.Fatal("the directory was synced")
	}
	must(t, j.Begin(b))
	if _, left := open(t, path); len(left) != 2 {
		t.Errorf("%d moves are left, want both", len(left))
	}
}

// recorder counts the bytes that are not on disk.
type recorder struct {
	file
	unsynced int
}

func (r *recorder) Write(b []byte) (int, error) {
	n, err := r.file.Write(b)
	r.unsynced += n
	return n, err
}

func (r *recorder) Sync() error {
	r.unsynced = 0
	return r.file.Sync()
}

// The new file is on disk before it replaces the old one.
func TestRewriteIsSynced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := open(t, path)
	must(t, j.Begin(someMove("a")))
	must(t, j.Begin(someMove("bb")))
	var fresh *recorder
	j.create = func(path string) (file, error) {
		f, err := create(path)
		fresh = &recorder{file: f}
		return fresh, err
	}
	must(t, j.writeAnew())
	if fresh == nil || fresh.unsynced > 0 {
		t.Errorf("%+v: a crash may leave an empty journal", fresh)
	}
	if _, left := open(t, path); len(left) != 2 {
		t.Errorf("%d moves are left, want both", len(left))
	}
}
