package scenario

import (
	"slices"
	"time"
)

// FileTimes says how long files of a group's VMs took: a file begun at every full minute with the VM's whole rate, or the copy that is its
// load. Files cut off by the end of a phase do not count.
type FileTimes struct {
	Done   int     `json:"done"`
	Median float64 `json:"median_s"`
	Mean   float64 `json:"mean_s"`
	Most   float64 `json:"max_s"`
}

// fileEvery is how often a file is begun.
const fileEvery = time.Minute

// files follows the files of one VM. Each has the VM's whole rate, so that measuring several does not change their times.
type files struct {
	bytes float64 // carried so far
	open  []file  // oldest first, which is also the first to end
}

type file struct {
	began time.Duration
	until float64 // ends when so many bytes are carried
}

// tick adds what is carried from now on for the length of a sample, and returns the seconds of the files that end in it.
func (f *files) tick(now, sample time.Duration, rate, size float64) []float64 {
	if now%fileEvery < sample {
		f.open = append(f.open, file{now, f.bytes + size})
	}
	next := f.bytes + rate*sample.Seconds()
	var done []float64
	for len(f.open) > 0 && f.open[0].until <= next {
		done = append(done, (now-f.open[0].began).Seconds()+(f.open[0].until-f.bytes)/rate)
		f.open = f.open[1:]
	}
	f.bytes = next
	return done
}

func fileTimes(seconds []float64) *FileTimes {
	if len(seconds) == 0 {
		return &FileTimes{}
	}
	slices.Sort(seconds)
	sum := 0.0
	for _, s := range seconds {
		sum += s
	}
	n := len(seconds)
	return &FileTimes{Done: n, Median: seconds[n/2], Mean: sum / float64(n), Most: seconds[n-1]}
}
