package metrics

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// newProcessMetrics adds the standard metrics of Prometheus' client libraries.
func newProcessMetrics(s *metricSet) {
	s.processCPU = s.metric(counter, "process_cpu_seconds_total", "Processor time that the daemon has used.")
	s.processMemory = s.metric(gauge, "process_resident_memory_bytes", "Memory of the daemon that is resident.")
	s.processFiles = s.metric(gauge, "process_open_fds", "Files that the daemon has open.")
	s.goroutines = s.metric(gauge, "go_goroutines", "Goroutines of the daemon.")
	s.heap = s.metric(gauge, "go_memstats_heap_inuse_bytes", "Memory in use by the daemon's Go heap.")
}

// process emits the metrics of this process.
func (e *emitter) process() {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) == nil {
		e.send(e.m.processCPU, float64(use.Utime.Nano()+use.Stime.Nano())/1e9)
	}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(text)); len(f) > 1 {
			if pages, err := strconv.ParseFloat(f[1], 64); err == nil {
				e.send(e.m.processMemory, pages*float64(os.Getpagesize()))
			}
		}
	}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		e.send(e.m.processFiles, float64(len(files)-1)) // one of them is the directory itself
	}
	e.send(e.m.goroutines, float64(runtime.NumGoroutine()))
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	e.send(e.m.heap, float64(mem.HeapInuse))
}
