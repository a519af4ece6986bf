// Package hwtest tests package kernel on a real (or emulated) PF. Its tests change the VF that they are given: its MAC, rates and
// driver. They run on the host with the PF, from a test binary copied there:
//
//	go test -c -tags lab ./internal/host/kernel/hwtest
//	SLUICE_TEST_PF=pf0 SLUICE_TEST_VF=6 ./hwtest.test
package hwtest
