// Package virtualpf drives the controller of virtual PFs. It keeps their state in a file, observes the host, carries out what
// control/vpf decides, and answers the requests of administrators and guests. No frame passes before its policy is in force: link down,
// policy, link up.
package virtualpf
