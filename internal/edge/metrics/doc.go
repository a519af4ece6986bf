// Package metrics writes a View in Prometheus' text format.
package metrics
