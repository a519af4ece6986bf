// Package report writes the results of a simulation: tables, JSON, CSV, the list of decisions, and a self-contained page with plots.
package report
