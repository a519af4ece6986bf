// Package metrics exports a View in Prometheus' text format.
package metrics
