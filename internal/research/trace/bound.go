package trace

import (
	"fmt"
	"io"
)

// Bounds of what is read at a time, so that a file of one endless line, perhaps well compressed, does not exhaust memory.
const (
	maxRow   = 1 << 20  // a row of CSV
	maxValue = 64 << 20 // a series of Prometheus
)

// bounded reads at most limit bytes between two marks.
type bounded struct {
	in    io.Reader
	what  string // name of what is read between two marks
	limit int
	count int
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.count > b.limit {
		return 0, &tooLong{b}
	}
	n, err := b.in.Read(p[:min(len(p), b.limit+1-b.count)])
	b.count += n
	return n, err
}

func (b *bounded) mark() { b.count = 0 }

// tooLong is the error of a bounded that reads past its limit.
type tooLong struct{ b *bounded }

func (e *tooLong) Error() string {
	return fmt.Sprintf("%s is longer than %d MiB", e.b.what, e.b.limit>>20)
}
