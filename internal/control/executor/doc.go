// Package executor carries out Moves: it runs their Steps in order, retries them, and undoes a Move when a Step fails. It knows
// no kind of Step: what a failure means comes with each Step as model.Flow. At most one Move at a time works on a Subject.
//
// An Executor is a deterministic state machine without clock, goroutines or I/O: given the results of Steps and the time, it
// returns the Steps to start.
package executor
