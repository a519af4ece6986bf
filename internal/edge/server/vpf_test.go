package server

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
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
		{
			fmt.Errorf("define vpf0 of a: %w: it is running: shut it down first", model.ErrPermanent),
			"define vpf0 of a: it is running: shut it down first", http.StatusConflict,
		},
		{fmt.Errorf("define vpf0 of b: %w", model.ErrGone), "define vpf0 of b: " + model.ErrGone.Error() +
			"; see which VMs there are: virsh list --all", http.StatusConflict},
		{&api.Error{Text: "a", Remedy: "b"}, "a; b", http.StatusConflict},
		{errors.New("broken"), "broken", http.StatusInternalServerError},
	} {
		got := forPerson(c.err)
		if got.Error() != c.want || statusOf(got, http.StatusInternalServerError) != c.status {
			t.Errorf("%q, status %d; want %q, %d", got, statusOf(got, http.StatusInternalServerError), c.want, c.status)
		}
	}
}

// Each setting that a request can change is named, but for the link: what the host sets of that reaches no grant.
func TestNamedFields(t *testing.T) {
	typ, seen := reflect.TypeFor[api.PortChange](), model.PortFields(0)
	for i := range typ.NumField() {
		var c api.PortChange
		f := reflect.ValueOf(&c).Elem().Field(i)
		f.Set(reflect.New(f.Type().Elem())) // even what takes the setting away
		named, name := namedFields(&c), typ.Field(i).Name
		if (named == 0) != (name == "Link") || named&seen != 0 && name != "Trunk" {
			t.Errorf("%s: %b", name, named)
		}
		seen |= named
	}
	if seen != model.PortWeight<<1-1 {
		t.Errorf("all: %b", seen)
	}
}
