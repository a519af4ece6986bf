package server

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"sluice/api/v1"
	"sluice/internal/model"
)

// An error that the user can fix is reported as such, not as an internal error.
func TestForPerson(t *testing.T) {
	for _, c := range []struct {
		err    error
		want   string
		status int
	}{
		{fmt.Errorf("define vpf0 of a: %w: it is running: shut it down first", model.ErrPermanent), "define vpf0 of a: it is running: shut it down first", http.StatusConflict},
		{fmt.Errorf("define vpf0 of b: %w", model.ErrGone), "define vpf0 of b: " + model.ErrGone.Error() + "; see which VMs there are: virsh list --all", http.StatusConflict},
		{&api.Error{Text: "a", Remedy: "b"}, "a; b", http.StatusConflict},
		{errors.New("broken"), "broken", http.StatusInternalServerError},
	} {
		got := forPerson(c.err)
		if got.Error() != c.want || statusOf(got, http.StatusInternalServerError) != c.status {
			t.Errorf("%q, status %d; want %q, %d", got, statusOf(got, http.StatusInternalServerError), c.want, c.status)
		}
	}
}
