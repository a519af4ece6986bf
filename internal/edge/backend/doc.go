// Package backend answers the API from a loop: from the last View what is asked, and inside
// the loop what is commanded. It keeps the overrides (pin, release, drain). Daemon and demo
// share it.
package backend
