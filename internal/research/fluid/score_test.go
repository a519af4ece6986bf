package fluid

import "time"

// score accumulates the result of a Run.
type score struct {
	entitled, sent    []float64 // by sender: guaranteed demand and what was sent, in this window
	sumSent, sumIdeal float64
	good, all         int
	short             float64
	changes           int
}

const (
	window = 200 * time.Millisecond
	enough = 0.95 // of the demand under a guarantee
)

func (s *score) begin(n int) {
	s.entitled, s.sent = make([]float64, n), make([]float64, n)
}

func (s *score) add(t time.Duration, entitled, ideal, sent []float64) {
	for i := range sent {
		s.entitled[i] += entitled[i]
		s.sent[i] += sent[i]
		s.sumIdeal += ideal[i]
		s.sumSent += sent[i]
	}
	if (t+Step)%window == 0 {
		s.close()
	}
}

// close scores a window.
func (s *score) close() {
	for i := range s.sent {
		if s.entitled[i] > 0 {
			s.all++
			if s.sent[i] >= enough*s.entitled[i] {
				s.good++
			}
			s.short += max(0, s.entitled[i]-s.sent[i]) * Step.Seconds()
		}
		s.entitled[i], s.sent[i] = 0, 0
	}
}

func (s *score) result(n int, seconds float64) Result {
	r := Result{Satisfied: 100, Short: s.short, Changes: float64(s.changes) / float64(n) / seconds}
	if s.all > 0 {
		r.Satisfied = 100 * float64(s.good) / float64(s.all)
	}
	if s.sumIdeal > 0 {
		r.Utilisation = 100 * s.sumSent / s.sumIdeal
	}
	return r
}
