package fluid

import "time"

// score adds up a Run.
type score struct {
	entitled, sent    []float64 // by sender: asked for and sent in this window
	awake             []time.Duration
	asked             []bool
	sumSent, sumIdeal float64
	good, all         int
	short             float64
	changes           int
	recovery          time.Duration
}

const (
	window = 200 * time.Millisecond
	enough = 0.95 // of what a guarantee asks for
)

func (s *score) begin(n int) {
	s.entitled, s.sent = make([]float64, n), make([]float64, n)
	s.awake, s.asked = make([]time.Duration, n), make([]bool, n)
}

func (s *score) add(t time.Duration, entitled, ideal, sent []float64) {
	for i := range sent {
		s.entitled[i] += entitled[i]
		s.sent[i] += sent[i]
		s.sumIdeal += ideal[i]
		s.sumSent += sent[i]
		s.wake(t, i, entitled[i], sent[i])
	}
	if (t+Step)%window == 0 {
		s.close()
	}
}

// wake follows a guarantee from idle to what it is entitled to.
func (s *score) wake(t time.Duration, i int, entitled, sent float64) {
	switch asks := entitled > 0; {
	case !asks:
		s.asked[i], s.awake[i] = false, 0
	case !s.asked[i]:
		s.asked[i], s.awake[i] = true, t
	}
	if s.awake[i] > 0 && sent >= enough*entitled {
		s.recovery = max(s.recovery, t-s.awake[i])
		s.awake[i] = 0
	}
}

// close judges a window.
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
	r := Result{Satisfied: 100, Short: s.short, Recovery: s.recovery, Changes: float64(s.changes) / float64(n) / seconds}
	if s.all > 0 {
		r.Satisfied = 100 * float64(s.good) / float64(s.all)
	}
	if s.sumIdeal > 0 {
		r.Utilisation = 100 * s.sumSent / s.sumIdeal
	}
	return r
}
