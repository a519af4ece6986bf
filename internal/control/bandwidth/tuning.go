package bandwidth

import "time"

// All tuning constants of waterfill. Those with a figure from real TCP were measured there: single runs of several scenarios on
// 100 Mbit/s with CUBIC. The others were chosen in the scenarios of research/fluid. A change of any of them requires a run of
// both: `make long`.

// The division of the capacity.
const (
	handedOut     = 0.995                  // of the capacity: more costs retransmits, less costs goodput
	fullLink      = 0.92                   // of the capacity: above this, other senders may hold a sender down
	mostFloor     = 0.005                  // of the capacity: floor for all if guarantees leave it: TCP leaves a near-zero limit in 160-260 ms
	leastFloor    = 0.0001                 // of the capacity: floor for everyone in any case
	atFloorWithin = 0.01                   // relative: a limit within this of the floor is at the floor
	leastRoom     = 0.06                   // relative, + moreRoom: how far a satisfied sender may grow before that is noticed
	mostRoom      = 0.12                   // relative: maximum of the same, however noisy the sender is
	noiseRoom     = 6.0                    // x noise: the same, so that noise is not taken for growth
	moreRoom      = 0.01                   // of the capacity: the same for a sender of little or nothing
	promisedFrame = 8 * 512                // bits: least packet for which a guarantee in bits/s holds; smaller ones need one in packets/s
	fullFrame     = 8 * (1514 + wireBytes) // bits: assumed frame of a sender whose frames are unknown
)

// The estimate of a sender's demand.
const (
	hungryOn    = 0.95 // of its limit, or closer if its noise is small: a sender bound by its limit reads 98-99.7 % of it
	hungryNear  = 0.98 // of its limit: never required to be closer than that
	hungryNoise = 2.5  // x noise: how much closer, since noise explains the difference
	hungryOff   = 0.90 // of its limit, for hungryTime: below it the sender is satisfied
	hungryTime  = 0.12 // s: noise takes a bound sender below hungryOff occasionally, but not for so long
	hungrySlow  = 4.0  // times hungryTime, below hungryOn but not below hungryOff
	idleNow     = 0.5  // of its limit: below it the sender is satisfied at once
	stirs       = 0.1  // of the floor limit: a sender of more may be about to start
	boundMost   = 5    // ticks for which being at the limit is remembered
	boundLeast  = 2    // ticks at the limit from which on it counts
	reachTime   = 1.0  // s: time constant of the mean of what it then sends

	noiseGain   = 0.1   // weight of the EWMA of noise: some ten readings
	firstNoise  = 0.02  // relative: initial value
	leastNoise  = 0.003 // relative: a sender bound by its limit has 0.3-2 % at 40 ms
	mostNoise   = 0.08  // relative: above this a reading shows changes rather than noise
	smoothTime  = 0.3   // s: time constant of the mean of readings
	fallTime    = 0.1   // s: the same for a falling guaranteed sender while the link is full: fast attack, slow release
	stepNoise   = 3.0   // x noise: a reading that differs by more from the mean is a step
	leastMargin = 0.005 // relative: reserve above a reading
	noiseMargin = 1.5   // x noise: the same
	climbing    = 1.10  // x reading: a guaranteed sender that rises below its guarantee is assumed to continue rising

	growBits    = 0.005   // of the capacity: how far a NIC may exceed its share before that counts as growth
	growPromise = 0.00075 // of the capacity: the same for a guaranteed sender
	growNoise   = 2.0     // x noise, beyond the share: the same
	growSurely  = 0.05    // of the share: a smaller excess must occur twice for a guaranteed sender: a flow's pace has waves of 3 %

	settleTime  = 0.1 // s until a limit takes effect, longest in a guest: until then a higher limit tells nothing of who stays below
	settleTicks = 3   // the same in ticks of the shortest usual period, 40 ms
)

// The hold of guarantees that were asked for.
const (
	holdTime   = time.Second             // after a guaranteed sender wanted more than it had, while the link was full
	holdActive = 0.05                    // of the guarantee: a sender of less has stopped
	holdFall   = 0.88                    // of the previous reading: a fall on a full link that others may have caused
	holdFirst  = 200 * time.Millisecond  // after a useless hold: no hold for a fall for this long,
	holdLast   = 3200 * time.Millisecond // doubling to this after several in a row
)

// Hysteresis: changing a limit costs a call to the kernel, a driver or a guest.
const (
	raiseSoon   = 0.10  // relative: raised by so much once in force for rest, since what guarantees leave fluctuates;
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

// The measurement of the link's capacity. On real TCP a link that carries 6 % less than its nominal speed was detected within
// 0.28 s by its plateau; with drop counters the result was unstable.
const (
	plateauTicks = 3                // of nearly constant volume
	plateauFlat  = 0.008            // relative: nearly
	plateauNoise = 2.0              // deviations of the volume: the same, if that is more
	plateauBelow = 0.985            // of what was handed out: less than that indicates a lower capacity
	plateauShort = 0.012            // of the capacity: what senders that were at their limits now lack
	plateauSure  = 3                // deviations of the volume: the same, if that is more
	plateauMost  = 2                // of plateauTicks in which that must show
	plateauWhy   = 1. / 3           // of what was handed out and not used: the part that senders formerly at their limits must lack
	stopped      = 0.75             // of what it sent at its limit: a sender of less has stopped by itself
	leastCarried = 0.5              // of the speed: minimum of the capacity when others take a part of the link
	probeFirst   = time.Second      // from a fall to the first upward probe
	probeLast    = 32 * time.Second // maximum between probes that fail
	probeStep    = 0.01             // of the capacity; doubles while probes succeed,
	probeSteps   = 4                // up to so many steps
	probeGain    = 0.75             // of the step: by how much the volume must rise for a probe to succeed
	probeSure    = 8                // deviations of the volume: required significance
	probeTicks   = 50               // maximum duration of a probe
)

// The trial of whether senders that suddenly send less are held down by the link.
const (
	fullLately = time.Second            // before its fall: on a link that was not full within that time the demand fell, not the capacity
	fallenFor  = 15 * time.Second       // after its fall: a sender that has not recovered by then wants no more
	trialLeast = 0.25                   // of what was handed out: with less the link is nearly idle
	trialStep  = 0.05                   // of the volume: increase for the fallen, at the others' cost
	trialSure  = 4                      // deviations of the volume: the same, if that is more
	trialGain  = 0.5                    // of the step: by how much they must send more for the trial to succeed
	trialTime  = 600 * time.Millisecond // how long to wait for that,
	trialTicks = plateauTicks + 1       // and for at least so many ticks
	trialLast  = 8 * time.Second        // maximum between trials that fail
)
