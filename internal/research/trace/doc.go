// Package trace reads what VMs moved over time, from files of several kinds, and
// keeps Sluice's own recordings. What is wrong with a file is counted and told with
// its place, and handled in one stated way:
//
//   - What cannot be read (text for a number, a missing column) is an error with file,
//     line and column: the file is not what it was taken for.
//   - An absurd row (negative, not finite, above the line rate) is left out.
//   - Of duplicate rows (one VM, one time) the last in the file counts.
//   - Out-of-order rows are sorted in.
//   - In a gap (more than three times the VM's usual spacing) the last row counts for
//     one usual spacing; after that the load is unknown to a policy and worth nothing
//     to the score.
//   - A recording whose end is torn off counts up to the tear.
//
// A row's rates hold from its time until the VM's next row.
package trace
