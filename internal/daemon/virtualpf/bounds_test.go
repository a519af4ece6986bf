package virtualpf

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/control/vpf"
	"sluice/internal/control/vpf/vpftest"
	"sluice/internal/model"
)

// Log lines about one VM leave room for those about others, their total is bounded too, and omitted lines are counted.
func TestLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lines
		logged := func(vm model.VMID, n int) (lines int) {
			for range n {
				if ok, _ := l.may(vm); ok {
					lines++
				}
			}
			return lines
		}
		if n := logged("a", 100); n != linesAtOnce {
			t.Errorf("%d of 100 lines about a VM", n)
		}
		time.Sleep(lineEvery)
		if ok, left := l.may("a"); !ok || left != 100-linesAtOnce {
			t.Errorf("%v, %d left out", ok, left)
		}
		time.Sleep(lineEvery)
		if ok, left := l.may("a"); !ok || left != 0 {
			t.Errorf("%v, %d left out again", ok, left)
		}
		all := 0
		for i := range 20 {
			all += logged(model.VMID(fmt.Sprint(i)), 100)
		}
		if all < allLinesOnce-linesAtOnce || all > allLinesOnce {
			t.Errorf("%d of 2000 lines about many VMs", all)
		}
		l.keep(func(vm model.VMID) bool { return vm == "a" })
		if len(l.by) != 1 {
			t.Errorf("%d VMs are remembered", len(l.by))
		}
	})
}

// A guest can attach and detach all its VFs at once. Its allowance is dropped with its last virtual PF.
func TestAllowance(t *testing.T) {
	var all allowances
	s := testState(t, vpftest.PF("a", "one", 2), vpftest.PF("a", "two", 3))
	a := all.of("a", s)
	if n := a.changes.Burst(); n != 32+2*5 {
		t.Errorf("%d changes at once", n)
	}
	if all.of("a", s) != a {
		t.Error("it starts again")
	}
	none := (&vpf.State{}).Clone()
	all.of("b", none)
	if all.by["a"] != nil {
		t.Error("it is kept for ever")
	}
}
