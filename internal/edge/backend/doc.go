// Package backend connects the API to a loop: it answers queries from the last View and executes commands inside the loop.
// It stores the overrides (pin, release, drain, SLAs). Daemon and demo share it.
package backend
