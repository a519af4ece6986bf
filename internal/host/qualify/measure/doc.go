// Package measure measures what a PF and its VFs do, for `sluice qualify`. It uses VFs that nobody else uses, checks this again before
// every step, and always restores what it changed: the previous state is written to a file (Journal) before any change, and while that file
// exists, no daemon assigns those VFs.
package measure
