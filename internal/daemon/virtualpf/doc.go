// Package virtualpf drives the controller of virtual PFs: it keeps their state in a file, looks at the host, carries out what
// control/vpf decides, and answers people and guests. No frame passes before its policy is in force: link down, policy, link up.
package virtualpf
