package cache

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// A test that wants all slots gets them although others keep asking for single slots, and nobody else holds one at that time.
func TestAllSlots(t *testing.T) {
	t.Setenv("SLUICE_LAB_CACHE", t.TempDir())
	t.Setenv("SLUICE_LAB_SLOTS", "2")
	one, err := Slot(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	all, begun := make(chan []*os.File), time.Now()
	go func() {
		got, err := AllSlots(t.Context(), nil)
		if err != nil {
			t.Error(err)
		}
		all <- got
	}()
	tryOne := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		f, err := Slot(ctx, nil)
		if err == nil {
			f.Close()
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		return err == nil
	}
	for tryOne() { // until the other caller is the one that collects
		if time.Since(begun) > time.Minute {
			t.Fatal("whoever wants all slots never gets to collect them")
		}
	}
	select {
	case <-all:
		t.Fatal("all slots were given although one is taken")
	default:
	}
	one.Close()
	got := <-all
	if len(got) != 2 {
		t.Errorf("%d slots, want 2", len(got))
	}
	if tryOne() {
		t.Error("a slot was given although all are taken")
	}
	Close(got)
	if !tryOne() {
		t.Error("no slot although none is taken")
	}
}
