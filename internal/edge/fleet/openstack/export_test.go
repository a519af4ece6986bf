package openstack

import (
	"testing"
	"time"
)

// Hurry has requests that begin after it end sooner.
func Hurry(t *testing.T, after time.Duration) {
	before := timeout
	timeout = after
	t.Cleanup(func() { timeout = before })
}

// Token is the token in use.
func (l *Ledger) Token() string { return l.client.Token() }
