package kernel

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"sluice/internal/model"
)

// fail names operation and subject of an error, and marks those that mean that the
// subject is gone. nil stays nil.
func fail(op, subject string, err error) error {
	switch {
	case err == nil:
		return nil
	case gone(err) && !errors.Is(err, model.ErrGone):
		return fmt.Errorf("%s %s: %w: %w", op, subject, model.ErrGone, err)
	}
	return fmt.Errorf("%s %s: %w", op, subject, err)
}

func gone(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) || errors.Is(err, fs.ErrNotExist)
}

// permanent marks an error that trying again cannot repair and says what can.
func permanent(remedy string) error {
	return fmt.Errorf("%w: %s", model.ErrPermanent, remedy)
}

// wantUnicast refuses addresses that no guest has.
func wantUnicast(mac model.MAC) error {
	if mac.IsZero() || mac[0]&1 != 0 {
		return permanent("want a unicast address")
	}
	return nil
}
