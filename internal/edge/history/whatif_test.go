package history

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sluice/api/v1"
	"sluice/internal/model"
)

func TestWhatIfIsComputedOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New()
		view := &model.View{Rules: model.Rules{Policy: "fair"}}
		look := func() {
			view.Snapshot = &model.Snapshot{Time: time.Now(), VMs: []model.VM{{ID: "a", Name: "vm-a"}}}
			m.Add(view)
		}
		var fail error
		computed := 0
		w := NewWhatIf(m, 5*time.Minute, time.Now, func(ctx context.Context, p *Past) ([]api.PolicyResult, error) {
			computed++
			if len(p.Load.VMs) != 1 || p.Load.VMs[0].Bytes == nil || p.Rules.Policy != "fair" || p.Snapshot != view.Snapshot {
				t.Errorf("computes %+v", p)
			}
			if fail != nil {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			time.Sleep(10 * time.Second)
			return []api.PolicyResult{{Policy: "fair"}}, nil
		})
		go func() { _ = w.Run(t.Context()) }()
		look()
		w.WhatIf(view)
		synctest.Wait()
		if a := w.WhatIf(view); a.Error == "" || a.Remedy == "" || computed != 0 {
			t.Errorf("with nothing remembered: %+v, computed %d times", a, computed)
		}
		synctest.Wait()
		for range 7 {
			time.Sleep(Step)
			look()
		}
		for range 3 {
			if a := w.WhatIf(view); !a.Running || a.Current != "fair" {
				t.Errorf("asked: %+v", a)
			}
		}
		time.Sleep(11 * time.Second)
		if a := w.WhatIf(view); a.Running || a.Error != "" || len(a.Policies) != 1 || computed != 1 || a.To.Sub(a.From) < time.Minute ||
			a.Computed.IsZero() {
			t.Errorf("computed %d times: %+v", computed, a)
		}
		time.Sleep(4 * time.Minute)
		if w.WhatIf(view); computed != 1 {
			t.Errorf("computed %d times in five minutes", computed)
		}
		if a := w.WhatIf(view); a.Age < 4*60 || a.Age > 5*60 {
			t.Errorf("four minutes later its loads are %g s old", a.Age)
		}
		fail = errors.New("hangs")
		time.Sleep(time.Minute)
		if a := w.WhatIf(view); !a.Running || len(a.Policies) != 1 {
			t.Errorf("after five minutes: %+v", a)
		}
		time.Sleep(whatIfTimeout + time.Second)
		if a := w.WhatIf(view); a.Running || a.Error == "" || len(a.Policies) != 1 || computed != 2 {
			t.Errorf("computed %d times, of which the last took too long: %+v", computed, a)
		}
	})
}
