// Package tests is the floor of what only tests use, and of tests that look at the tree as a whole: imports, documents, alerts.
package tests
