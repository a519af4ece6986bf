package executor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// memory is a journal that can be made to fail.
type memory struct {
	open []string
	err  error
}

func (j *memory) Begin(m model.Move) error {
	if j.err == nil {
		j.open = append(j.open, Key(m))
	}
	return j.err
}

func (j *memory) End(m model.Move) error {
	j.open = slices.DeleteFunc(j.open, func(s string) bool { return s == string(m.VM) })
	return nil
}

// move returns a Move with a Step for each word. The marks after a word set its Flow: "<" retries from the previous Step, "~"
// waits, "^" turns, "!" skips the next Step, and a digit is the number of the undo list.
func move(vm, words string, undo ...string) model.Move {
	m := model.Move{VM: model.VMID(vm), Steps: steps(vm, words), Gone: steps(vm, "sweep")}
	for _, u := range undo {
		m.Undo = append(m.Undo, steps(vm, u))
	}
	return m
}

func steps(vm, words string) (out []model.Step) {
	for _, w := range strings.Fields(words) {
		s := model.Step{Kind: model.StepKind(strings.TrimRight(w, "<~^!123456789")), Subject: model.Subject{VM: model.VMID(vm)}}
		for _, mark := range strings.TrimPrefix(w, string(s.Kind)) {
			switch mark {
			case '<':
				s.Flow.Retry = 1
			case '~':
				s.Flow.Waits = true
			case '^':
				s.Flow.Turns = true
			case '!':
				s.Flow.Skip = 1
			default:
				s.Flow.Undo = int(mark - '0')
			}
		}
		out = append(out, s)
	}
	return out
}

// play runs a Move to its end. script lists how tries end, as "step:error" words, each used once, where error is no, never, gone
// or guest; all other tries succeed.
func play(t *testing.T, e *Executor, m model.Move, script string) (did string, last *Run) {
	t.Helper()
	todo := strings.Fields(script)
	now := noon
	s, err := e.Begin(now, m)
	if err != nil {
		t.Fatal(err)
	}
	queue := []model.Step{s}
	for len(queue) > 0 {
		s, queue = queue[0], queue[1:]
		did += string(s.Kind) + " "
		result := error(nil)
		if len(todo) > 0 && strings.HasPrefix(todo[0], string(s.Kind)+":") {
			_, how, _ := strings.Cut(todo[0], ":")
			result = map[string]error{"no": errors.New("no"), "never": model.ErrPermanent, "gone": model.ErrGone, "guest": model.ErrGuest}[how]
			todo = todo[1:]
		}
		last = e.Finish(now, s.ID, result)
		if w := e.Wake(); !w.IsZero() {
			now = w
		}
		queue = append(queue, e.Due(now)...)
	}
	if len(todo) > 0 {
		t.Errorf("%s: never came to %v", did, todo)
	}
	return strings.TrimSpace(did), last
}

func TestFinish(t *testing.T) {
	undo := []string{"c b", "leave! take"}
	for _, c := range []struct{ name, steps, script, want, err string }{
		{"all works", "a b c", "", "a b c", ""},
		{"tries again", "a b c", "b:no b:no", "a b b b c", ""},
		{"only so often", "a b1 c", "b:no b:no b:no", "a b b b c b", "b: no"},
		{"not where it cannot help", "a b1 c", "b:never", "a b c b", "b: " + model.ErrPermanent.Error()},
		{"nothing to take back", "a b c", "b:never", "a b", "b: " + model.ErrPermanent.Error()},
		{"a VM that has gone", "a b1 c", "b:gone", "a b sweep", "b: gone"},
		{"begins a retry before it", "a b< c", "b:no b:no", "a b a b a b c", ""},
		{"not for ever", "a b<1 c", "b:no b:no b:no", "a b a b a b c b", "b: no"},
		{"another list", "a b2 c", "b:never", "a b leave take", "b: " + model.ErrPermanent.Error()},
		{"an undo tries again", "a b1 c", "b:never c:no c:no", "a b c c c b", "b: " + model.ErrPermanent.Error()},
		{"but not what cannot succeed", "a b2 c", "b:never leave:never", "a b leave", "b: " + model.ErrPermanent.Error()},
		{"what cannot be undone is left out", "a b1 c", "b:never c:no c:no c:no", "a b c c c b", "b: " + model.ErrPermanent.Error()},
		{"with what needs it", "a b2 c", "b:never leave:no leave:no leave:no", "a b leave leave leave", "b: " + model.ErrPermanent.Error()},
		{"but not when it has gone", "a b2 c", "b:never leave:gone", "a b leave take", "b: " + model.ErrPermanent.Error()},
	} {
		j := &memory{}
		e := New(Options{Retries: 2, Delay: time.Second}, j)
		did, r := play(t, e, move("vm", c.steps, undo...), c.script)
		if did != c.want || r.Error != c.err || (r.Cause() != nil) != (c.err != "") {
			t.Errorf("%s: did %q, error %q; want %q, %q", c.name, did, r.Error, c.want, c.err)
		}
		if !r.Over() || e.Len() != 0 || len(e.Runs()) != 0 || len(j.open) != 0 || !e.Wake().IsZero() {
			t.Errorf("%s: over %v, %d under way, journal %v", c.name, r.Over(), e.Len(), j.open)
		}
	}
}

// Retries follow after one delay, two, four and so on; in between nothing is due.
func TestDelayDoubles(t *testing.T) {
	e := New(Options{Retries: 4, Delay: time.Second}, &memory{})
	now := noon
	s, _ := e.Begin(now, move("vm", "a"))
	for _, want := range []time.Duration{1, 2, 4, 8} {
		e.Finish(now, s.ID, errors.New("no"))
		if wait := e.Wake().Sub(now); wait != want*time.Second {
			t.Errorf("waits %s, want %d s", wait, want)
		}
		now = e.Wake()
		if early := e.Due(now.Add(-time.Millisecond)); early != nil {
			t.Errorf("too early: %v", early)
		}
		again := e.Due(now)
		if len(again) != 1 || e.Due(now) != nil {
			t.Fatalf("due: %v", again)
		}
		s = again[0]
	}
	if e.Retries() != 4 {
		t.Errorf("%d retries counted", e.Retries())
	}
}

func TestCancel(t *testing.T) {
	why, no := errors.New("why"), errors.New("no")
	for _, c := range []struct {
		name   string
		steps  string
		at     int   // cancelled while this Step is under way
		result error // of that Step
		giveUp bool
		want   string // what is done after that
	}{
		{"after the Step under way", "a^1 b^1 c", 0, nil, false, "x"},
		{"though it fails", "a^1 b^1 c", 0, no, false, "x"},
		{"a wait is given up", "a^1 b~^1 c", 1, no, true, "x"},
		{"too late to turn", "a^1 b^1 c d", 2, nil, false, "d"},
		{"the VM has gone meanwhile", "a^1 b^1 c", 1, model.ErrGone, false, "sweep"},
	} {
		e := New(Options{Retries: 2}, &memory{})
		s, _ := e.Begin(noon, move("vm", c.steps, "x"))
		for range c.at {
			e.Finish(noon, s.ID, nil)
			s = e.Due(noon)[0]
		}
		r := e.Run("vm")
		if id := e.Cancel(noon, r, why); (id == s.ID) != c.giveUp || (id != 0) != c.giveUp {
			t.Errorf("%s: give up %d, Step %d is under way", c.name, id, s.ID)
		}
		e.Cancel(noon, r, why) // a second call has no effect
		e.Finish(noon, s.ID, c.result)
		did := ""
		for due := e.Due(noon); len(due) > 0; due = e.Due(noon) {
			did += string(due[0].Kind)
			e.Finish(noon, due[0].ID, nil)
		}
		if errors.Is(c.result, model.ErrGone) && (r.Cancelled() || !errors.Is(r.Cause(), model.ErrGone)) {
			t.Errorf("%s: cause %v", c.name, r.Cause())
		}
		if did != c.want || r.Cancelled() != (c.want == "x") || !r.Over() || (r.Cancelled() && !errors.Is(r.Cause(), why)) {
			t.Errorf("%s: did %q, cause %v, over %v; want %q", c.name, did, r.Cause(), r.Over(), c.want)
		}
	}
}

// Cancelling a Move that is being undone changes nothing.
func TestCancelWhileUndoing(t *testing.T) {
	e := New(Options{}, &memory{})
	s, _ := e.Begin(noon, move("vm", "a^1", "x^1 y"))
	r := e.Finish(noon, s.ID, model.ErrPermanent)
	if id := e.Cancel(noon, r, nil); id != 0 || r.Cancelled() {
		t.Errorf("give up %d, cancelled %v", id, r.Cancelled())
	}
	var did []model.StepKind
	for due := e.Due(noon); len(due) > 0; due = e.Due(noon) {
		did = append(did, due[0].Kind)
		e.Finish(noon, due[0].ID, nil)
	}
	if !slices.Equal(did, []model.StepKind{"x", "y"}) || !errors.Is(r.Cause(), model.ErrPermanent) {
		t.Errorf("did %v, cause %v", did, r.Cause())
	}
}

func TestOptionsCountFromTheNextResultOn(t *testing.T) {
	e := New(Options{}, &memory{})
	s, _ := e.Begin(noon, move("vm", "a"))
	e.SetOptions(Options{Retries: 1, Delay: time.Minute})
	if r := e.Finish(noon, s.ID, errors.New("no")); r.Over() || e.Wake() != noon.Add(time.Minute) {
		t.Errorf("over %v, wakes at %s", r.Over(), e.Wake())
	}
}

// Between two tries nothing is under way, so the Move is undone at once.
func TestCancelBetweenTries(t *testing.T) {
	e := New(Options{Retries: 2, Delay: time.Hour}, &memory{})
	s, _ := e.Begin(noon, move("vm", "a^1", "x"))
	e.Finish(noon, s.ID, errors.New("no"))
	if id := e.Cancel(noon, e.Run("vm"), nil); id != 0 {
		t.Errorf("give up %d", id)
	}
	if due := e.Due(noon); len(due) != 1 || due[0].Kind != "x" {
		t.Errorf("due %v, want x", due)
	}
}

func TestJournal(t *testing.T) {
	j := &memory{}
	e := New(Options{}, j)
	s := e.Do(noon, move("b", "a"))
	if _, err := e.Begin(noon, move("c", "a")); err != nil || !slices.Equal(j.open, []string{"c"}) {
		t.Errorf("journal %v, %v; want c alone, b does without", j.open, err)
	}
	j.err = errors.New("no space left on device")
	if _, err := e.Begin(noon, move("d", "a")); !errors.Is(err, j.err) || e.Run("d") != nil {
		t.Errorf("begun without the journal: %v", err)
	}
	e.Resume(noon, move("a", "a"))
	var keys []string
	for _, r := range e.Runs() {
		keys = append(keys, r.key)
	}
	if !slices.Equal(keys, []string{"a", "b", "c"}) {
		t.Errorf("under way in order %v", keys)
	}
	due := e.Due(noon)
	if len(due) != 1 || due[0].Subject.VM != "a" {
		t.Fatalf("due %v, want the resumed one", due)
	}
	if e.Finish(noon, s.ID+99, nil) != nil {
		t.Error("took the result of a Step it does not know")
	}
	j.open = append(j.open, "a", "b") // as an earlier run left it; b is not journaled
	if e.Finish(noon, due[0].ID, nil) == nil || e.Finish(noon, s.ID, nil) == nil || !slices.Equal(j.open, []string{"c", "b"}) {
		t.Errorf("both ended, the journal has %v", j.open)
	}
	if e.Finish(noon, s.ID, nil) != nil {
		t.Error("took a result twice")
	}
}

// Failed is the Step that failed for good; it is zero if none did.
func TestFailed(t *testing.T) {
	for script, want := range map[string]model.StepKind{"": "", "b:no": "", "b:never": "b", "b:never c:never": "b", "c:no c:no c:no": "c"} {
		e := New(Options{Retries: 2, Delay: time.Second}, &memory{})
		_, r := play(t, e, move("vm", "a b1 c1", "c"), script)
		if r.Failed.Kind != want || (r.Failed.ID != 0) != (want != "") {
			t.Errorf("%q: failed %q (%d), want %q", script, r.Failed.Kind, r.Failed.ID, want)
		}
	}
}

// Whatever happens, every Move ends, and no Subject ever has two.
func TestEveryMoveEnds(t *testing.T) {
	words := []string{"a", "b1", "c<2", "d~^1", "e^2", "f<"}
	results := []error{nil, errors.New("no"), model.ErrPermanent, model.ErrGone}
	seed := uint64(1)
	pick := func(n int) int {
		seed = seed*6364136223846793005 + 1442695040888963407
		return int(seed>>33) % n
	}
	for range 3000 {
		e := New(Options{Retries: pick(3), Delay: time.Second}, &memory{})
		list := "first"
		for range 1 + pick(6) {
			list += " " + words[pick(len(words))]
		}
		now := noon
		s, _ := e.Begin(now, move("vm", list, "u v", "w! x y"))
		queue := []model.Step{s}
		r, n := e.Run("vm"), 0
		for ; len(queue) > 0 && n < 500; n++ {
			if pick(10) == 0 {
				e.Cancel(now, r, fmt.Errorf("at %d", n))
			}
			if len(queue) > 1 {
				t.Fatalf("%s: %v at once", list, queue)
			}
			e.Finish(now, queue[0].ID, results[pick(len(results))])
			if w := e.Wake(); !w.IsZero() {
				now = w
			}
			queue = e.Due(now)
		}
		if !r.Over() || e.Len() != 0 {
			t.Fatalf("%s: not over after %d results: step %d of %v", list, n, r.Step, r.Move.Steps)
		}
	}
}

// Without the bound, a Move with many retries, and its Subject with it, would wait for days.
func TestDelayIsBounded(t *testing.T) {
	e := New(Options{Retries: 20, Delay: time.Second}, &memory{})
	s, err := e.Begin(noon, move("a", "one"))
	if err != nil {
		t.Fatal(err)
	}
	now := noon
	for try := range 20 {
		e.Finish(now, s.ID, errors.New("no"))
		if wait := e.Wake().Sub(now); wait > time.Minute {
			t.Fatalf("try %d waits for %s", try+1, wait)
		}
		now = e.Wake()
		s = e.Due(now)[0]
	}
}
