package sysif

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

// Fail adds operation and subject to an error, and model.ErrGone if the error means that the subject is gone. nil stays nil.
func Fail(op, subject string, err error) error {
	switch {
	case err == nil:
		return nil
	case Gone(err) && !errors.Is(err, model.ErrGone):
		return fmt.Errorf("%s %s: %w: %w", op, subject, model.ErrGone, err)
	}
	return fmt.Errorf("%s %s: %w", op, subject, err)
}

// Gone reports whether a kernel error means that its subject does not exist.
func Gone(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) || errors.Is(err, fs.ErrNotExist)
}

// Permanent returns an error that retrying cannot fix; remedy says what can.
func Permanent(remedy string) error {
	return fmt.Errorf("%w: %s", model.ErrPermanent, remedy)
}

// WantUnicast rejects addresses that no guest can have.
func WantUnicast(mac model.MAC) error {
	if mac.IsZero() || mac[0]&1 != 0 {
		return Permanent("want a unicast address")
	}
	return nil
}
