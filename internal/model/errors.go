package model

import "errors"

// Errors that an actuator wraps to tell the loop what to do next. Any other error is retried a bounded number of times.
var (
	// ErrPermanent marks an error that a retry cannot fix.
	ErrPermanent = errors.New("trying again will not help")
	// ErrGone marks that the VM or device a Step is about no longer exists.
	ErrGone = errors.New("gone")
	// ErrGuest marks that the guest did not do its part: it ignored an unplug, or has no driver for the VF.
	ErrGuest = errors.New("the guest did not respond")
)
