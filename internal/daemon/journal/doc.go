// Package journal manages the files in the daemon's state_dir that must survive a crash: the journal of moves under way, the
// list of PF filters that Sluice added, and the last events.
package journal
