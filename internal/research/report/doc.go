// Package report writes what a simulation showed: tables, JSON, CSV, the list of
// decisions, and a page with plots that needs nothing from elsewhere.
package report
