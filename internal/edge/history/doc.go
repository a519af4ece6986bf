// Package history keeps what Views showed during the last hour: the load of every VM and PF in steps of ten seconds, who
// held which VF, and the moves with the times of their Steps.
//
// Memory is bounded. A VM costs 20 bytes for each step in which it was there, 7.2 kB for the hour, and at most MaxVMs
// are kept in one step; of moves and of times during which a VF was held the last ones are kept. The loop adds a View, and
// waits for no reader: what is over is not changed any more, so a reader copies a few lists of pointers and
// works on those.
package history
