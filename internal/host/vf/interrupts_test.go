package vf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/host/sysif"
	"sluice/internal/model"
)

func TestInterrupts(t *testing.T) {
	m := irqs(msix(0), msix(1), "")
	h := &Functions{k: &sysif.Kernel{Sys: m.Tree()}}
	m.Content["/kernel/irq/40/per_cpu_count"] = "1,20,300\n"
	m.Content["/kernel/irq/41/per_cpu_count"] = "0,4000,0\n"
	if n, err := h.Interrupts(t.Context(), vfAddr); err != nil || n != 4321 {
		t.Errorf("got %d, %v; want 4321", n, err)
	}
	m.Content["/kernel/irq/41/per_cpu_count"] = "0,x\n"
	if n, err := h.Interrupts(t.Context(), vfAddr); err == nil {
		t.Errorf("of nonsense: %d", n)
	}
	if _, err := h.Interrupts(t.Context(), "0000:99:00.0"); !errors.Is(err, model.ErrGone) {
		t.Errorf("of no device: %v, want gone", err)
	}
}

// TestPerCPUOfThisKernel parses the files of the running kernel.
func TestPerCPUOfThisKernel(t *testing.T) {
	files, _ := filepath.Glob("/sys/kernel/irq/*/per_cpu_count")
	if len(files) == 0 {
		t.Fatal("this kernel shows no interrupts in /sys/kernel/irq: is sysfs mounted?")
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // freed meanwhile
		}
		if _, err := perCPU(string(text[:len(text)-1])); err != nil {
			t.Errorf("%s: %q: %v", f, text, err)
		}
	}
}

func FuzzPerCPU(f *testing.F) {
	for _, s := range []string{"", "1,2", "0,", "18446744073709551615,1", "-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := perCPU(text)
		if err != nil {
			return
		}
		var want uint64
		for field := range strings.SplitSeq(text, ",") {
			var one uint64
			_, _ = fmt.Sscanf(field, "%d", &one) // the empty text contains no number
			want += one
		}
		if n != want {
			t.Errorf("%q: %d, want %d", text, n, want)
		}
	})
}

func FuzzFromInterrupts(f *testing.F) {
	f.Add(procInterrupts)
	f.Add("40: vfio-msix[1](0000:01:10.0)")
	f.Fuzz(func(t *testing.T, text string) {
		m := irqs("", "")
		m.Content["/interrupts"] = text
		if _, err := fromInterrupts(m.Tree(), vfAddr); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
