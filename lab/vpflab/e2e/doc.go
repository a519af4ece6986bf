// Package e2e runs the daemon, sluice-guest and sluice-cni in the lab for virtual PFs. It tests what root in a guest can send, and what
// must and must not arrive: `go test -tags lab ./lab/vpflab/e2e`.
package e2e
