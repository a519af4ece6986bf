package metrics

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// process emits the metrics of this process.
func (e emitter) process() {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) == nil {
		e.send(processCPU, float64(use.Utime.Nano()+use.Stime.Nano())/1e9)
	}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(text)); len(f) > 1 {
			if pages, err := strconv.ParseFloat(f[1], 64); err == nil {
				e.send(processMemory, pages*float64(os.Getpagesize()))
			}
		}
	}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		e.send(processFiles, float64(len(files)-1)) // one of them is the directory itself
	}
	e.send(goroutines, float64(runtime.NumGoroutine()))
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	e.send(heap, float64(mem.HeapInuse))
}
