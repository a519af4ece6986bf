// Package history keeps the last hour of Views: the load of every VM and PF in steps of ten seconds, who held which VF, and
// the moves with the times of their Steps.
//
// Memory is bounded. A VM costs 20 bytes for each step in which it exists, 7.2 kB for the hour, and at most MaxVMs VMs are
// kept per step; of moves and holdings, the most recent are kept. The loop adds a View without waiting for readers: records
// that are complete do not change any more, so a reader copies a few lists of pointers and works on those.
package history
