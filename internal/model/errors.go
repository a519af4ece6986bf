package model

import "errors"

// Errors that an actuator wraps so that the loop knows what to do next. Any other
// error is worth a bounded number of retries.
var (
	// ErrPermanent marks an error that trying again cannot help.
	ErrPermanent = errors.New("trying again will not help")
	// ErrGone marks that the VM or device a Step is about no longer exists.
	ErrGone = errors.New("gone")
	// ErrGuest marks that the guest did not do its part: it ignored an unplug, or has
	// no driver for the VF.
	ErrGuest = errors.New("the guest did not respond")
)
