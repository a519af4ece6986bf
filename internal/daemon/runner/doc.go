// Package runner drives the two control loops in real time: Placement drives a loop.Core, Bandwidth a bandwidth.Core. It has the
// goroutines and the clock, and makes no decisions.
package runner
