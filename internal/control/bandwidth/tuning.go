package bandwidth

import "time"

// The tuning constants of waterfill. docs/appendix/waterfill.md has the figures by which those of the trial and the probes were chosen:
// on real TCP (single runs of several scenarios on 100 Mbit/s with CUBIC) or in the scenarios of research/fluid. A change of any of them
// requires a run of both: `make long`, `scripts/measure bandwidth`.

// The division of the capacity.
const (
	handedOut     = 0.995                  // of the capacity: more costs retransmits, less costs goodput
	fullLink      = 0.92                   // of the capacity: above this, other senders may hold a sender down
	roomLink      = 0.90                   // of the capacity: below this, it may have room; in between it may be full and have become smaller
	mostFloor     = 0.005                  // of the capacity: floor for all if guarantees leave it: TCP leaves a near-zero limit in 160-260 ms
	leastFloor    = 0.0001                 // of the capacity: floor for everyone in any case
	leastRoom     = 0.06                   // relative, + moreRoom: how far a satisfied sender may grow before that is noticed
	mostRoom      = 0.12                   // relative: maximum of the same, however noisy the sender is
	noiseRoom     = 6.0                    // x noise: the same, so that noise is not taken for growth
	moreRoom      = 0.01                   // of the capacity: the same for a sender of little or nothing
	roomCareful   = 0.02                   // of the capacity: most of those without a guarantee together, for carefulTime after they did harm
	promisedFrame = 8 * 512                // bits: least packet for which a guarantee in bits/s holds; smaller ones need one in packets/s
	fullFrame     = 8 * (1514 + wireBytes) // bits: assumed frame of a sender whose frames are unknown
)

// What others are not lent, since they hold guaranteed senders down with it.
const (
	carefulTime = 5 * time.Second // for which roomCareful applies, and the time constant of what follows
	harmMost    = 2               // periods lately in which a guaranteed sender's return held others down: after more nothing is lent
	harmLeast   = 0.01            // less is forgotten
)

// The estimate of a sender's demand.
const (
	hungryOn   = 0.95 // of its limit: a sender bound by it reads 98-99.7 % of it
	hungryTime = 0.2  // s: below hungryOn for so long it is satisfied: noise takes a bound sender there for less
	idleNow    = 0.5  // of its limit: below it the sender is satisfied at once, and has stopped if it just sent twice as much

	noiseGain   = 0.1   // weight of the EWMA of noise: some ten readings
	firstNoise  = 0.02  // relative: initial value
	leastNoise  = 0.003 // relative: a sender bound by its limit has 0.3-2 % at 40 ms
	mostNoise   = 0.08  // relative: above this a reading shows changes rather than noise
	smoothTime  = 0.3   // s: time constant of the mean of readings
	fallTime    = 0.1   // s: the same for a falling guaranteed sender while the link is full: fast attack, slow release
	stepNoise   = 3.0   // x noise: a reading that differs by more from the mean is a step
	noiseMargin = 1.5   // x noise: the same

	wantGrowth = 6    // x reading, + wantLeast: what a sender that wants more than it has is taken to want
	wantLeast  = 0.03 // of the capacity
	slowTime   = 1.0  // s: time constant of a slower mean, for the trend
	trendStep  = 0.25 // relative: a difference of the means that is no trend but a step
	trendNoise = 1.0  // x noise: a trend of less is none

	stall       = 0.1     // of what those without a guarantee sent: if they too send less by so much, no fall is a sender's choice
	active      = 0.05    // of the guarantee: a guaranteed sender of less has stopped
	growBits    = 0.005   // of the capacity: how far a NIC may exceed its share before that counts as growth
	growPromise = 0.00075 // of the capacity: the same for a guaranteed sender
	growNoise   = 2.0     // x noise, beyond the share: the same
	growSurely  = 0.05    // of the share: a smaller excess must occur twice for a guaranteed sender: a flow's pace has waves of 3 %

)

// Hysteresis: changing a limit costs a call to the kernel, a driver or a guest.
const (
	raiseAtOnce = 0.20  // relative: raised by so much at once,
	raiseSoon   = 0.10  // by so much once in force for rest, since what guarantees leave fluctuates;
	raiseLater  = 0.02  // by so much once in force for soon;
	raiseLast   = 0.005 // by so much once in force for later; by less never
	rest        = 0.19  // s
	soon        = 0.25  // s
	later       = 1.0   // s
	spareRest   = 0.5   // s: the same for a satisfied sender
	lowerAtOnce = 0.02  // relative: a smaller reduction is skipped while there is room
	roomAtOnce  = 0.05  // relative, either way: the same for a satisfied sender
	keepOver    = 0.003 // of the capacity: how far retained limits may exceed the shares together
	rounding    = 1e-9  // relative: numerical error of sums
)

// The capacity of the link.
const (
	leastCarried = 0.3                   // of the speed: minimum of the capacity
	probeFirst   = time.Second           // from a fall to the first upward probe
	probeLast    = 4 * time.Second       // maximum between probes that fail
	probeStep    = 0.01                  // of the capacity; doubles while probes succeed,
	probeMost    = 0.04                  // up to this
	probeGain    = 0.75                  // of the step: by how much the volume must rise for a probe to succeed
	riseSure     = 2                     // deviations of the volume: above the capacity by more it has shown that this is too low
	probeFull    = 0.97                  // of what is handed out: a volume of less says nothing about it
	probeSure    = 4                     // deviations of the volume: required significance
	probeTime    = 2 * time.Second       // maximum duration
	queueTime    = 20 * time.Millisecond // of the link at its capacity: a queue that hides at first that a probe goes too far
	shownTime    = 1.0                   // s: a capacity that a trial has shown is asked for anew after so long without one of the tried
	provenTime   = time.Second           // for which what the link has carried counts: for what a fall or a probe is compared with,
	peakTime     = 30 * time.Second      // and for what a trial takes the link for at least
)

// The trial of whether the link holds guaranteed senders down.
const (
	lookTime      = 120 * time.Millisecond // for which the volume is constant and somebody lacks something before a trial
	lookLeast     = 2                      // periods: the same,
	lookMost      = 4                      // and at most as many
	lookFlat      = 0.01                   // relative: constant
	takenLeast    = 0.05                   // of the capacity: what others take from guaranteed senders in a period, if it is no chance
	lookNoise     = 2.0                    // deviations of the volume: the same, if that is more
	lackShare     = 0.03                   // of the guarantee, or of what a sender is known to want: lacking less is worth no trial
	lackAbove     = 0.10                   // the same of what a sender had beyond its guarantee
	lessSurely    = 0.05                   // relative: a fall of so much is not noise
	keptTime      = 2.0                    // s without lack after which former trials no longer count
	trialFrom     = 0.5                    // of the capacity: with less volume the link is not full
	trialStep     = 0.03                   // of the volume: what the others lose, besides what is known to be missing
	trialSure     = 3                      // deviations of the volume: the same, if that is more
	directly      = 4                      // steps: they are given at once what they lack, if it is less
	trialBelow    = 0.99                   // of what is handed out: a full link that carries more is full because of the limits
	trialGain     = 0.5                    // of the step: by how much the tried must send more for the trial to succeed
	trialLikely   = 1.5                    // deviations of that: the same, if the tried have less to gain
	trialHeld     = 180 * time.Millisecond // for which the tried must keep what they gained: longer than short bursts
	constantBy    = 0.2                    // relative: readings of a sender that does not come and go
	trialExplains = 0.15                   // of what the link has carried more lately: it is not full, but asked for less, if less is lacking
	trialLeast    = 0.01                   // of the capacity: a trial over less is not worth its cost
	settleTime    = 80 * time.Millisecond  // until limits are in effect, longest in a guest
	trialTime     = 600 * time.Millisecond // maximum duration of a part
	trialTwice    = 0.75                   // of the capacity: before it is taken for less, the others are given back what they lost, once
	trialFirst    = 500 * time.Millisecond // between trials that fail: doubling,
	trialLast     = 16 * time.Second       // up to this,
	trialSoon     = time.Second            // or up to this if a sender lacks what it is known to want
)
