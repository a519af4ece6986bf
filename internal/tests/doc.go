// Package tests is the directory of what only tests use, and of the tests of the tree as a whole: imports, documents, alerts.
package tests
