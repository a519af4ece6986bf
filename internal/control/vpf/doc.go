// Package vpf is the controller of virtual PFs: it holds what each should be, decides what its embedded
// switch must hold each virtual VF to, and judges what guests ask for. Its Core is pure; a Runner
// carries out, in an order that never lets a frame pass before its policy stands: link down, policy, link up.
package vpf
