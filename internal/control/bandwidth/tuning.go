package bandwidth

import "time"

// The tuned constants of waterfill, all of them. Those with a figure from real TCP were measured there: single runs of several
// scenarios on 100 Mbit/s with CUBIC. The others were chosen in the scenarios of research/fluid. A change of any of them needs a
// run of both: `make long`.

// What is handed out.
const (
	handedOut     = 0.995                  // of the capacity: more costs retransmits, less costs goodput
	fullLink      = 0.92                   // of the capacity: from here on senders may be held down by others
	mostFloor     = 0.005                  // of the capacity, what everyone may send if guarantees leave so much to each: a limit near zero takes TCP 160-260 ms to leave
	leastFloor    = 0.0001                 // of the capacity, and what everyone may send in any case
	atFloorWithin = 0.01                   // relative: a limit that is above the floor by less is at the floor
	leastRoom     = 0.06                   // relative, + moreRoom: how far one that has enough may grow before that is noticed
	mostRoom      = 0.12                   // relative, the same at most, however noisy it is
	noiseRoom     = 6.0                    // x noise: the same, so that noise is not taken for growth
	moreRoom      = 0.01                   // of the capacity: the same for one that sends little or nothing
	promisedFrame = 8 * 512                // bits: a guarantee in bits/s counts for packets so large and larger; for smaller ones it takes one in packets/s
	fullFrame     = 8 * (1514 + wireBytes) // bits: the frame of a sender whose frames are not known
)

// The estimate of what a sender demands.
const (
	hungryOn    = 0.95 // of its limit, or nearer if its noise is small: a sender that its limit binds reads 98-99.7 % of it
	hungryNear  = 0.98 // of its limit: nearer than that is never asked for
	hungryNoise = 2.5  // x noise: how much nearer, since that much below is noise
	hungryOff   = 0.90 // of its limit, for hungryTime: one that has enough
	hungryTime  = 0.12 // s: noise takes a bound sender below hungryOff now and then, but not for so long
	hungrySlow  = 4.0  // times hungryTime, below hungryOn but not below hungryOff
	idleNow     = 0.5  // of its limit: one that has enough at once
	stirs       = 0.1  // of the least limit: a sender of more may be about to begin
	boundMost   = 5    // ticks for which it counts that a sender was at its limit
	boundLeast  = 2    // ticks, and from how many on
	reachTime   = 1.0  // s: of the mean of what it then sends

	noiseGain   = 0.1   // of the EWMA of noise: some ten readings
	firstNoise  = 0.02  // relative: before anything is known
	leastNoise  = 0.003 // relative: a sender bound by its limit has 0.3-2 % at 40 ms
	mostNoise   = 0.08  // relative: above this a reading says little of noise, and much of changes
	smoothTime  = 0.3   // s: of the mean of readings
	fallTime    = 0.1   // s: the same of a guaranteed sender's that fall while the link is full: attack at once, release slowly
	stepNoise   = 3.0   // x noise: a reading that differs by more from the mean is a step
	leastMargin = 0.005 // relative: what is set aside beyond a reading
	noiseMargin = 1.5   // x noise: the same
	climbing    = 1.10  // x reading: a guaranteed sender that rises below its guarantee is on its way up

	growBits    = 0.005   // of the capacity: what a NIC may send beyond what was set aside for it before that counts as growth
	growPromise = 0.00075 // of the capacity: the same of a guaranteed one
	growNoise   = 2.0     // x noise, beyond what was set aside: the same
	growSurely  = 0.05    // of what was set aside: by less a guaranteed sender has to exceed it twice, since a flow's pace has waves of 3 %

	settleTime  = 0.1 // s until a limit takes effect, in a guest most of all: a higher one says nothing before about who does not reach it
	settleTicks = 3   // the same in ticks of the shortest usual period, 40 ms
)

// The hold of guarantees that were asked for.
const (
	holdTime   = time.Second             // after a guaranteed sender wanted more than it had, while the link is full
	holdActive = 0.05                    // of the guarantee: a sender of less has stopped
	holdFall   = 0.88                    // of the reading before: a fall on a full link that others may have caused
	holdFirst  = 200 * time.Millisecond  // after a hold that was of no use: none for a fall,
	holdLast   = 3200 * time.Millisecond // and at most so long after several in a row
)

// Hysteresis: a change of a limit costs a call to the kernel, a driver or a guest.
const (
	raiseSoon   = 0.10  // relative: a limit that rises by so much does so once it has stood for rest, since what guarantees leave comes and goes;
	raiseLater  = 0.02  // by so much once it has stood for soon;
	raiseLast   = 0.005 // by so much once it has stood for later; by less never
	rest        = 0.19  // s
	soon        = 0.25  // s
	later       = 1.0   // s
	spareRest   = 0.5   // s: the same for one that has enough
	lowerAtOnce = 0.02  // relative: a limit that falls by less stays while there is room
	roomAtOnce  = 0.05  // relative, either way: the same of one that has enough
	keepOver    = 0.003 // of the capacity: how far limits that stay too high may exceed the shares together
	rounding    = 1e-9  // relative: what sums may be off by
)

// What the link is seen to carry. A link that carries 6 % less than it says was found within 0.28 s on real TCP by its plateau; by
// drop counters the result was unsteady.
const (
	plateauTicks = 3                // of volume that hardly changes
	plateauFlat  = 0.008            // relative: hardly
	plateauNoise = 2.0              // deviations of the volume: the same, where that is more
	plateauBelow = 0.985            // of what was handed out: with less than that something is wrong
	plateauShort = 0.012            // of the capacity: what senders that were at their limits now lack
	plateauSure  = 3                // deviations of the volume: the same, where that is more
	plateauMost  = 2                // of plateauTicks, in which that must show
	plateauWhy   = 1. / 3           // of what was handed out and not used: what those lack that were at their limits
	stopped      = 0.75             // of what it sent at its limit: a sender of less has stopped of itself
	leastCarried = 0.5              // of the speed: a capacity is never taken for less when others take a part of it
	probeFirst   = time.Second      // from a fall to the first probe for more
	probeLast    = 32 * time.Second // between probes that fail, at most
	probeStep    = 0.01             // of the capacity; doubles while probes succeed,
	probeSteps   = 4                // up to so many steps
	probeGain    = 0.75             // of the step: what the volume has to rise by for a probe to succeed
	probeSure    = 8                // deviations of the volume: so sure is that
	probeTicks   = 50               // that a probe takes at most
)

// The trial of whether those who suddenly send less are kept from sending.
const (
	fullLately = time.Second            // before its fall: a link that was not full then did not carry less than before, but was asked for less
	fallenFor  = 15 * time.Second       // after it: a sender that has not come back by then wants no more
	trialLeast = 0.25                   // of what was handed out: with less than that the link is next to idle
	trialStep  = 0.05                   // of the volume: what the fallen are given more, at the others' cost
	trialSure  = 4                      // deviations of the volume: the same, where that is more
	trialGain  = 0.5                    // of the step: what they have to send more for the trial to succeed
	trialTime  = 600 * time.Millisecond // for which that is waited for,
	trialTicks = plateauTicks + 1       // and for how many ticks
	trialLast  = 8 * time.Second        // between trials that fail
)
