// Package executor carries out Moves: their Steps in order, with retries, and with what
// takes them back when one fails. It knows no kind of Step: what a failure means comes
// with each Step as model.Flow. One Move at a time works on a Subject.
//
// An Executor is a deterministic state machine without clock, goroutine or world: given
// the results of Steps and the time, it returns the Steps to start.
package executor
