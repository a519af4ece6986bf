// Package loop is Sluice's control loop. Core is a deterministic state machine: given Snapshots, the results of Steps and the
// time, it returns the Steps to start. It has no goroutines, clock or I/O, so the daemon, the simulator and the tests run the
// same code. Package runner drives a Core in real time.
package loop
