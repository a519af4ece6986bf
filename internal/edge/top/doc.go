// Package top is the live view of a daemon on a terminal: the host at a glance, its VMs in a table that can be
// sorted and filtered, one VM in detail, and what stands in the way with its remedies. It asks a Source for all
// that it shows and changes nothing.
package top
