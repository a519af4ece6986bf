package sysif

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

// Fail names operation and subject of an error, and marks those that mean that the
// subject is gone. nil stays nil.
func Fail(op, subject string, err error) error {
	switch {
	case err == nil:
		return nil
	case Gone(err) && !errors.Is(err, model.ErrGone):
		return fmt.Errorf("%s %s: %w: %w", op, subject, model.ErrGone, err)
	}
	return fmt.Errorf("%s %s: %w", op, subject, err)
}

// Gone says whether an error of the kernel means that its subject does not exist.
func Gone(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) || errors.Is(err, fs.ErrNotExist)
}

// Permanent marks an error that trying again cannot repair and says what can.
func Permanent(remedy string) error {
	return fmt.Errorf("%w: %s", model.ErrPermanent, remedy)
}

// WantUnicast refuses addresses that no guest has.
func WantUnicast(mac model.MAC) error {
	if mac.IsZero() || mac[0]&1 != 0 {
		return Permanent("want a unicast address")
	}
	return nil
}
