package libvirt

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sluice/internal/host/libvirt/libvirttest"
)

// A definition that libvirt did not store as requested is restored, even if the caller's context has ended.
func TestRedefinePutsBack(t *testing.T) {
	d := libvirttest.Start(t)
	c := open(t, d.URI())
	v := libvirttest.VM{Name: "v"}
	before := defineVM(t, d, v)
	defs, err := c.Definitions(within(t, patience), []string{"v"})
	if err != nil || len(defs) != 1 {
		t.Fatal(defs, err)
	}
	ctx, gone := context.WithCancel(t.Context())
	defer gone()
	wrong := errors.New("not what was wanted")
	changed := strings.Replace(defs[0].XML, "<name>v</name>", "<name>v</name><title>changed</title>", 1)
	err = c.Redefine(ctx, &defs[0], changed, func(doc string) error {
		if !strings.Contains(doc, "changed") {
			t.Errorf("libvirt was given\n%s", doc)
		}
		gone()
		return wrong
	})
	if !errors.Is(err, wrong) {
		t.Error(err)
	}
	if after := inactive(t, d, v); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
}
