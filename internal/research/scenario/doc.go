// Package scenario reads descriptions of simulated hosts and runs policies on them: the daemon's own loop in virtual time, on a world with
// the loads, plug times, failures and blind spots that a file states, or on a recorded one. Every run follows from the file and its seed.
package scenario
