// Package vpf is the controller of virtual PFs: it holds what each should be, decides what its embedded switch must hold each
// virtual VF to, and judges what guests ask for. It is pure; daemon/virtualpf carries out what it decides, in an order that
// never lets a frame pass before its policy is in force: link down, policy, link up.
package vpf
