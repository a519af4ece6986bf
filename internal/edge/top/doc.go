// Package top is the live view of a daemon in a terminal: an overview of the host, its VMs in a table that can be sorted
// and filtered, one VM in detail, and the problems with their remedies. It gets everything from a Source and changes
// nothing.
package top
