// Package runner drives the two control loops in real time: Placement a loop.Core, Bandwidth a bandwidth.Core. The goroutines and
// the clock are here; what is decided is not.
package runner
