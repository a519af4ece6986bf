// Package vpf is the controller for virtual PFs. It holds the desired state of each one, decides which policy the embedded switch must
// enforce for each virtual VF, and judges the requests of guests. It is pure: daemon/virtualpf carries out its decisions, in an order
// that never lets a frame pass before its policy is in force (link down, policy, link up).
package vpf
