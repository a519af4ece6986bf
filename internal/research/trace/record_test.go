package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
	"sluice/internal/research/sim"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// wander changes a Snapshot as a host might: loads, moves, arrivals, links.
func wander(r *rand.Rand, s *model.Snapshot) *model.Snapshot {
	out := sim.Copy(s)
	out.Time = s.Time.Add(time.Second)
	for i := range out.VMs {
		if r.IntN(3) > 0 {
			out.VMs[i].CPU = r.Float64()
			out.VMs[i].NICs[0].Virtio.RxPPS = r.Float64() * 1e5
			out.VMs[i].NICs[0].VFPath.TxBytes = r.Float64() * 1e9
		}
	}
	switch i := r.IntN(max(1, len(out.VMs))); r.IntN(8) {
	case 0:
		id := model.VMID(fmt.Sprintf("vm-%02d", r.IntN(20)))
		if out.FindVM(id) == nil {
			vm := model.VM{
				ID: id, Name: string(id), State: model.VMRunning, Started: out.Time,
				NICs: []model.NIC{{Alias: "ua-net0", MAC: model.MAC{2, byte(r.IntN(99))}}},
			}
			out.VMs = replace(out.VMs, vm, func(a, b model.VM) int { return strings.Compare(string(a.ID), string(b.ID)) })
		}
	case 1:
		if len(out.VMs) > 0 {
			out.VMs = slices.Delete(out.VMs, i, i+1)
		}
	case 2:
		if len(out.VMs) > 0 {
			out.VMs[i].NICs[0].VF = model.VFID{PF: "pf0", Index: r.IntN(4)}
			out.PFs[0].VFs[0].Holder = out.VMs[i].ID
		}
	case 3:
		out.PFs[0].LinkUp = !out.PFs[0].LinkUp
		out.PFs[0].SelfFDB = append(out.PFs[0].SelfFDB, model.MAC{4, byte(r.IntN(99))})
	case 4:
		out.Problems = []model.Problem{{Subject: "x", Text: "y"}}
	case 5:
		if len(out.PFs) > 1 {
			out.PFs = out.PFs[:1]
		} else {
			out.PFs = append(out.PFs, model.PF{Name: "pf1"})
		}
	}
	return out
}

func first() *model.Snapshot {
	return &model.Snapshot{
		Time: epoch, VMs: []model.VM{},
		PFs: []model.PF{{Name: "pf0", Network: "br0", Managed: true, VFs: make([]model.VF, 4)}},
	}
}

func text(t testing.TB, x any) string {
	t.Helper()
	b, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// record writes n Snapshots and returns them as JSON.
func record(t testing.TB, r *Recorder, n int, seed uint64) []string {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	s := first()
	var want []string
	for range n {
		want = append(want, text(t, s))
		if err := r.Record(s); err != nil {
			t.Fatal(err)
		}
		s = wander(rnd, s)
	}
	return want
}

func readAll(t testing.TB, path string) (got []string, rec *Recording) {
	t.Helper()
	rec, err := OpenRecording(path)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	for {
		s, err := rec.Next()
		if errors.Is(err, io.EOF) {
			return got, rec
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, text(t, s.Snapshot))
	}
}

func TestRecordingComesBackAsItWas(t *testing.T) {
	for seed := range uint64(20) {
		dir := t.TempDir()
		r, err := NewRecorder(dir, RecorderOptions{MaxFile: 2000, MaxFiles: 1000})
		if err != nil {
			t.Fatal(err)
		}
		want := record(t, r, 200, seed)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		got, rec := readAll(t, dir)
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d samples, want %d", seed, len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("seed %d, sample %d:\n got %s\nwant %s", seed, i, got[i], want[i])
			}
		}
		if files, _ := recordingFiles(dir); len(files) < 3 {
			t.Errorf("%d files: it did not rotate", len(files))
		}
		if n := rec.Report.Troubles(); n != nil {
			t.Errorf("troubles in a whole recording: %v", n)
		}
	}
}

func TestRecordingIsBounded(t *testing.T) {
	dir := t.TempDir()
	const most = 3000
	r, err := NewRecorder(dir, RecorderOptions{MaxFile: most, MaxFiles: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := record(t, r, 500, 1)
	_ = r.Close()
	files, err := recordingFiles(dir)
	if err != nil || len(files) != 3 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil || st.Size() > most+2000 { // one line may go over
			t.Errorf("%s: %v bytes, %v", f, st.Size(), err)
		}
	}
	got, _ := readAll(t, dir)
	if tail := want[len(want)-len(got):]; !slices.Equal(got, tail) {
		t.Error("what is kept is not the newest part")
	}
}

// A file cut anywhere gives the samples before the cut and reports the tear.
func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	r, err := NewRecorder(dir, RecorderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := record(t, r, 30, 3)
	name := r.file.Name()
	whole, err := os.ReadFile(name) // before Close: as after a crash
	if err != nil {
		t.Fatal(err)
	}
	for cut := range whole {
		torn := filepath.Join(dir, "cut")
		if err := os.WriteFile(torn, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		got, rec := readAll(t, torn)
		if !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("cut at %d: not the samples before the cut", cut)
		}
		if cut > 0 && rec.Report.Count(KindTorn) != 1 {
			t.Fatalf("cut at %d: the tear is not reported", cut)
		}
	}
	if got, _ := readAll(t, name); len(got) != len(want) {
		t.Errorf("%d of %d samples survive a crash", len(got), len(want))
	}
	again, err := NewRecorder(dir, RecorderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	record(t, again, 5, 4)
	if again.file.Name() == name {
		t.Error("a restarted recorder writes into the torn file")
	}
}

func TestRulesAndMovesAreRecorded(t *testing.T) {
	dir := t.TempDir()
	r, err := NewRecorder(dir, RecorderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := first()
	view := &model.View{Snapshot: s, Rules: model.Rules{Policy: "fair"}, Recent: []model.MoveStatus{
		{Move: model.Move{VMName: "b"}, Ended: epoch.Add(2 * time.Second)},
		{Move: model.Move{VMName: "a"}, Ended: epoch.Add(time.Second)},
	}}
	for range 2 { // the second one tells nothing new
		if err := r.RecordView(view); err != nil {
			t.Fatal(err)
		}
	}
	view.Rules.Policy = "activity"
	view.Snapshot = wander(rand.New(rand.NewPCG(1, 1)), s)
	if err := r.RecordView(view); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	rec, err := OpenRecording(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	one, err := rec.Next()
	if err != nil || rec.Rules().Policy != "fair" || len(one.Moves) != 2 || one.Moves[0].Move.VMName != "a" {
		t.Fatalf("first sample %+v, rules %+v, %v", one, rec.Rules(), err)
	}
	two, err := rec.Next()
	if err != nil || rec.Rules().Policy != "activity" || len(two.Moves) != 0 {
		t.Fatalf("second sample %+v, rules %+v, %v", two, rec.Rules(), err)
	}
	if _, err := rec.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("a third sample: %v", err)
	}
}

// Reading a recording ends, with whole samples and no more of them than the file can hold.
func FuzzRecording(f *testing.F) {
	dir := f.TempDir()
	r, err := NewRecorder(dir, RecorderOptions{})
	if err != nil {
		f.Fatal(err)
	}
	record(f, r, 2, 1) // small, so that much is tried
	name := r.file.Name()
	_ = r.Close()
	zipped, err := os.ReadFile(name)
	if err != nil {
		f.Fatal(err)
	}
	z, err := plain(name, bytes.NewReader(zipped))
	if err != nil {
		f.Fatal(err)
	}
	bare, err := io.ReadAll(z)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(zipped)
	f.Add(bare)
	path := filepath.Join(dir, "fuzz")
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<14 {
			return // long inputs say nothing new
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		rec, err := OpenRecording(path)
		if err != nil {
			t.Fatal(err)
		}
		defer rec.Close()
		most := bytes.Count(data, []byte("\n")) + 1
		if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
			most = 2000 * len(data) // gzip makes at most a thousand bytes of one
		}
		for n := 0; ; n++ {
			s, err := rec.Next()
			if err != nil {
				return
			}
			if s.Snapshot == nil || n >= most {
				t.Fatalf("sample %d of at most %d is %+v", n, most, s)
			}
		}
	})
}
