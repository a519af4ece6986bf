// Package trace reads what VMs moved over time from files of several formats, and writes and reads Sluice's own recordings. Faults of a
// file are counted, reported with their place, and handled as follows:
//
//   - What cannot be read (text for a number, a missing column) is an error with file, line and column: the file does not have the
//     expected format.
//   - An absurd row (negative, not finite, above the line rate) is left out.
//   - Of duplicate rows (one VM, one time) the last in the file counts.
//   - Out-of-order rows are sorted in.
//   - In a gap (more than three times the VM's usual spacing) the last row counts for one usual spacing; after that the load is unknown
//     to a policy and worth nothing to the score.
//   - A recording whose end is missing counts up to that point.
//
// A row's rates apply from its time until the VM's next row.
package trace
