// Package demo runs the daemon's loop over a simulated host, for `sluice demo`.
package demo
