// Package journal has the files in the daemon's state_dir that outlast a crash: the journal of moves under way, and the list of PF
// filters that Sluice added.
package journal
