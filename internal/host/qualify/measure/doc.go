// Package measure tries out what a PF and its VFs do, for `sluice qualify`. It takes VFs that nobody uses, looks
// before every step whether that is still so, and puts back what it changed, whatever happens: what was there before
// is in a file (Journal) before anything is changed, and as long as that file is there, no daemon hands those VFs out.
package measure
