package executor

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/model"
)

// Times record what was tried when: a retry counts as another try, a retry that begins before the failed Step begins those Steps
// anew, and the undo follows.
func TestTimes(t *testing.T) {
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	no := errors.New("no")
	for _, c := range []struct {
		name    string
		move    model.Move
		results []error // one each second; later ones succeed
		want    []model.StepTime
	}{
		{"works", move("vm", "a b"), nil, []model.StepTime{
			{Kind: "a", From: at(0), To: at(1), Tries: 1}, {Kind: "b", From: at(1), To: at(2), Tries: 1},
		}},
		{"a retry", move("vm", "a b"), []error{no}, []model.StepTime{
			{Kind: "a", From: at(0), To: at(3), Tries: 2, Error: "no"}, {Kind: "b", From: at(3), To: at(4), Tries: 1},
		}},
		{"a retry from before", move("vm", "a b<"), []error{nil, no}, []model.StepTime{
			{Kind: "a", From: at(0), To: at(1), Tries: 1},
			{Kind: "b", From: at(1), To: at(2), Tries: 1, Error: "no"},
			{Kind: "a", From: at(3), To: at(4), Tries: 1},
			{Kind: "b", From: at(4), To: at(5), Tries: 1},
		}},
		{"an undo", move("vm", "a b1", "c"), []error{nil, model.ErrPermanent}, []model.StepTime{
			{Kind: "a", From: at(0), To: at(1), Tries: 1},
			{Kind: "b", From: at(1), To: at(2), Tries: 1, Error: model.ErrPermanent.Error()},
			{Kind: "c", From: at(2), To: at(3), Tries: 1, Undo: true},
		}},
		{"nothing to undo", move("vm", "a b"), []error{model.ErrPermanent}, []model.StepTime{
			{Kind: "a", From: at(0), To: at(1), Tries: 1, Error: model.ErrPermanent.Error()},
		}},
	} {
		e := New(Options{Retries: 2, Delay: time.Second}, &memory{})
		s, err := e.Begin(noon, c.move)
		if err != nil {
			t.Fatal(err)
		}
		var r *Run
		for now, queue := noon, []model.Step{s}; len(queue) > 0; {
			now = now.Add(time.Second)
			var result error
			if len(c.results) > 0 {
				result, c.results = c.results[0], c.results[1:]
			}
			r = e.Finish(now, queue[0].ID, result)
			if w := e.Wake(); w.After(now) {
				now = w
			}
			queue = e.Due(now)
		}
		if diff := cmp.Diff(c.want, r.Times); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestMovesAreNumbered(t *testing.T) {
	e := New(Options{}, &memory{})
	for want := uint64(1); want <= 3; want++ {
		s, err := e.Begin(noon, move("vm", "a"))
		if err != nil {
			t.Fatal(err)
		}
		if r := e.Finish(noon, s.ID, nil); r.ID != want {
			t.Errorf("move number %d is number %d", want, r.ID)
		}
	}
}
