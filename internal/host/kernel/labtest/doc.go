// Package labtest runs the tests of package kernel in the lab: on a kernel with features that this one may lack, with PFs, and
// with a guest that opens a VF.
//
//	go test -tags lab ./internal/host/kernel/labtest
package labtest
