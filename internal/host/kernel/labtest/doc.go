// Package labtest runs the tests of package kernel in the lab: on another kernel, which
// has what this one may lack, with PFs, and with a guest that opens a VF.
//
//	go test -tags lab ./internal/host/kernel/labtest
package labtest
