package libvirt

import (
	"errors"
	"slices"
	"testing"
	"time"

	lv "github.com/digitalocean/go-libvirt"

	"sluice/internal/model"
)

func seen(run int32, state lv.DomainState) reading {
	return reading{dom: Domain{VM: model.VM{ID: "a", Name: "web"}}, run: run, state: state}
}

func TestInventoryStarted(t *testing.T) {
	var v inventory
	t0 := time.Unix(1000, 0)
	for i, step := range []struct {
		run    int32
		state  lv.DomainState
		booted bool
		want   time.Time
	}{
		{1, lv.DomainPaused, false, time.Time{}},
		{1, lv.DomainRunning, false, t0.Add(1 * time.Second)},
		{1, lv.DomainRunning, false, t0.Add(1 * time.Second)},
		{1, lv.DomainPaused, false, t0.Add(1 * time.Second)},
		{1, lv.DomainRunning, true, t0.Add(4 * time.Second)},
		{2, lv.DomainRunning, false, t0.Add(5 * time.Second)},
	} {
		v.put(seen(step.run, step.state), step.booted, t0.Add(time.Duration(i)*time.Second))
		if got := v.domains()[0].Started; !got.Equal(step.want) {
			t.Errorf("step %d: started %s", i, got)
		}
	}
}

func TestInventoryJobs(t *testing.T) {
	var v inventory
	v.setJob("a", true) // an unknown domain has none
	v.put(seen(1, lv.DomainRunning), false, time.Now())
	if got := v.domains()[0].State; got != model.VMRunning {
		t.Errorf("state %s without a job", got)
	}
	v.setJob("a", true)
	v.put(seen(1, lv.DomainRunning), false, time.Now()) // an event in the middle of it
	if got := v.domains()[0].State; got != model.VMMigrating {
		t.Errorf("state %s", got)
	}
	if len(v.ids(false)) != 1 {
		t.Error("the job is not followed")
	}
	v.setJob("a", false)
	if got := v.domains()[0].State; got != model.VMRunning || len(v.ids(false)) != 0 {
		t.Errorf("state %s afterwards", got)
	}
	v.setHung("a", 35*time.Second)
	if p := v.problems(); len(p) != 1 || p[0].Subject != "web" || p[0].Remedy == "" {
		t.Errorf("problems: %v", p)
	}
}

func TestInventoryUnreadable(t *testing.T) {
	var v inventory
	v.put(seen(1, lv.DomainRunning), false, time.Now())
	v.unreadable("a", lv.Error{Message: "no"})
	v.unreadable("b", lv.Error{Message: "no"})
	if p := v.problems(); len(p) != 2 {
		t.Errorf("problems: %v", p)
	}
	v.put(seen(1, lv.DomainRunning), false, time.Now())
	if got := v.without(map[model.VMID]cause{"a": {}}); len(got) != 1 || got[0] != "b" {
		t.Errorf("without: %v", got)
	}
	v.drop("b")
	v.drop("a")
	if p := v.problems(); len(p) != 0 || v.len() != 0 {
		t.Errorf("left after both were dropped: %v", p)
	}
}

// A domain that could not be read counts as unread until it is read or ends, unless there is an older entry.
func TestInventoryUnread(t *testing.T) {
	var v inventory
	want := func(when string, vms ...model.VMID) {
		t.Helper()
		if got := v.unread(); !slices.Equal(got, vms) {
			t.Errorf("%s: %v", when, got)
		}
	}
	v.unreadable("b", errors.New("no"))
	v.unreadable("a", errors.New("no"))
	want("none was read yet", "a", "b")
	v.put(seen(1, lv.DomainRunning), false, time.Now())
	want("a was read", "b")
	v.unreadable("a", errors.New("no"))
	want("an older entry stands", "b")
	v.drop("b")
	want("b ended")
}
