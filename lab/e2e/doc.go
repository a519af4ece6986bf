// Package e2e runs the daemon on the lab's host and checks the results: who holds VFs, what was lost on the way, and whether faults
// leave anything behind. Its tests have the build tag lab.
package e2e
