package bandwidth

import "time"

// The tuning constants of waterfill. docs/appendix/waterfill-figures.md has the figures by which they were chosen: on real TCP (single runs
// of several scenarios on 100 Mbit/s with CUBIC) or in the scenarios of research/fluid. A change of any of them requires a run of both:
// `make long`, `scripts/measure bandwidth`.

// How much is much, and how surely something is not chance.
const (
	negligible = 0.005 // of the capacity: growth that is none, and what everyone may send if guarantees leave it
	little     = 0.01  // relative, or of the capacity: no difference, and worth no effort; a probe's first step
	worthwhile = 0.03  // of what is promised, the volume or the capacity: worth a trial, which costs as much, or asking for
	clearly    = 0.05  // relative, or of the capacity: no wave or noise; a probe's last step
	much       = 0.20  // relative: a sender that changes by so much comes or goes, and a limit that rises by so much cannot wait
	bound      = 0.95  // of a limit, or of what is handed out: what is bound by it reads 98-99.7 % of it

	surely    = 2.0 // standard deviations: chance exceeds it in one of 44 readings,
	certainly = 3.0 // in one of 740

	shortly = 190 * time.Millisecond // for which a change lasts that is no burst: a period of 200 ms, or two of 100
	second  = time.Second            // for which what has been seen counts as the present state
)

// The division of the capacity.
const (
	handedOut   = 0.995           // of the capacity: more costs retransmits, less costs goodput
	fullLink    = 0.91            // of the capacity: above this, other senders may hold a sender down; below, it may have room
	leastFloor  = 0.0001          // of the capacity: floor for everyone in any case
	roomShare   = 0.08            // relative, + little: how far a satisfied sender may grow before that is noticed; noise is no growth
	roomCareful = 0.02            // of the capacity: most of those without a guarantee together, for carefulTime after they did harm
	carefulTime = 5 * time.Second // the same, and the time constant of harmMost
	harmMost    = 2               // periods lately in which a guaranteed sender's return held others down: after more nothing is lent
)

// The estimate of a sender's demand.
const (
	noiseGain  = 0.1                    // weight of the EWMA of noise: some ten readings
	firstNoise = 0.02                   // relative: initial value
	leastNoise = 0.003                  // relative: a sender bound by its limit has 0.3-2 % at 40 ms
	mostNoise  = 0.08                   // relative: above this a reading shows changes rather than noise
	smoothTime = 300 * time.Millisecond // time constant of the mean of readings
	fallTime   = 100 * time.Millisecond // the same for a falling guaranteed sender while the link is full: fast attack, slow release
	wantGrowth = 6                      // x reading, + worthwhile: what a sender that wants more than it has is taken to want
	trendStep  = 0.25                   // relative: a difference of the means that is no trend but a step
	trendNoise = 1.0                    // x noise: a trend of less is none

	active      = 0.05    // of the guarantee: a guaranteed sender of less has stopped
	growPromise = 0.00075 // of the capacity: how far a guaranteed sender may exceed its share before that counts as growth
)

// Hysteresis: changing a limit costs a call to the kernel, a driver or a guest. A raise by more than much is applied at once, one by less
// than little never.
const (
	raiseSoon = 0.10 // relative: raised by so much once in force for shortly, since what guarantees leave fluctuates;
	slightly  = 0.02 // by so much once in force for soon, and a smaller reduction is skipped while there is room;
	soon      = 250 * time.Millisecond
	spareRest = 500 * time.Millisecond // the same for a satisfied sender
	keepOver  = 0.003                  // of the capacity: how far retained limits may exceed the shares together
)

// The capacity of the link.
const (
	leastCarried = 0.3                   // of the speed: minimum of the capacity
	probeLast    = 4 * time.Second       // maximum between probes that fail
	probeGain    = 0.75                  // of the step: by how much the volume must rise for a probe to succeed
	probeTime    = 2 * time.Second       // maximum duration
	queueTime    = 20 * time.Millisecond // of the link at its capacity: a queue that hides at first that a probe goes too far
	peakTime     = 30 * time.Second      // for which what the link has carried counts for what a trial takes it for at least
)

// The trial of whether the link holds guaranteed senders down.
const (
	lookTime   = 120 * time.Millisecond // for which the volume is constant and somebody lacks something before a trial
	lookLeast  = 2                      // periods: the same,
	lookMost   = 4                      // and at most as many
	directly   = 4                      // steps: they are given at once what they lack, if it is less
	trialBelow = 0.99                   // of what is handed out: a full link that carries more is full because of the limits
	trialTwice = 0.75                   // of the capacity: before it is taken for less, the others are given back what they lost, once
	settleTime = 80 * time.Millisecond  // until limits are in effect, longest in a guest
	trialTime  = 600 * time.Millisecond // maximum duration of a part, and between trials that fail: doubling,
	trialLast  = 16 * time.Second       // up to this
)
