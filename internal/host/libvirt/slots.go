package libvirt

import (
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"
)

func eofIsNil(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// pciUse counts the functions on each slot of each bus of the guest.
type pciUse map[uint]map[uint]int

// scan holds what is read of a domain's devices without knowing their kinds, so that unknown kinds count too.
type scan struct {
	use     pciUse
	aliases []string
}

// scanDevices walks the whole document. An <address> within <source> is a host address, not one of the guest.
func scanDevices(doc string) (scan, error) {
	out := scan{use: pciUse{}}
	dec := xml.NewDecoder(strings.NewReader(doc))
	source := 0
	for {
		tok, err := dec.RawToken()
		if tok == nil {
			return out, eofIsNil(err)
		}
		switch t := tok.(type) {
		case xml.StartElement:
			if t.Name.Local == "source" {
				source++
			} else if source == 0 {
				out.element(t)
			}
		case xml.EndElement:
			if t.Name.Local == "source" {
				source--
			}
		}
	}
}

func (s *scan) element(t xml.StartElement) {
	switch t.Name.Local {
	case "address":
		s.use.add(t.Attr)
	case "alias":
		s.aliases = append(s.aliases, attr(t.Attr, "name"))
	}
}

func attr(attrs []xml.Attr, name string) string {
	for _, a := range attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// add counts an <address> if it is a PCI address.
func (u pciUse) add(attrs []xml.Attr) {
	if attr(attrs, "type") != "pci" {
		return
	}
	bus, err1 := strconv.ParseUint(attr(attrs, "bus"), 0, 32)
	slot, err2 := strconv.ParseUint(attr(attrs, "slot"), 0, 32)
	if err1 != nil || err2 != nil {
		return
	}
	if u[uint(bus)] == nil {
		u[uint(bus)] = map[uint]int{}
	}
	u[uint(bus)][uint(slot)]++
}

// freeSlots counts the places where a VF can be hot-plugged: on PCI Express machines (q35, virt) the root and downstream ports with nothing
// behind them, on i440fx the free slots of its only bus.
func freeSlots(use pciUse, x *libvirtxml.Domain) int {
	if x.Devices == nil {
		return 0
	}
	free := 0
	for i := range x.Devices.Controllers {
		c := &x.Devices.Controllers[i]
		if c.Type != "pci" || c.Index == nil || hotplugOff(c) {
			continue
		}
		switch c.Model {
		case "pcie-root-port", "pcie-switch-downstream-port":
			if len(use[*c.Index]) == 0 {
				free++
			}
		case "pci-root":
			free += freeOnConventional(use[*c.Index], x.Features)
		}
	}
	return free
}

func hotplugOff(c *libvirtxml.DomainController) bool {
	return c.PCI != nil && c.PCI.Target != nil && c.PCI.Target.Hotplug == "off"
}

// freeOnConventional counts the free slots of an i440fx: slot 0 is the host bridge, 1 the PIIX3 with IDE, USB and ACPI. Without ACPI, a
// guest does not notice a hot-plug.
func freeOnConventional(used map[uint]int, f *libvirtxml.DomainFeatureList) int {
	if f == nil || f.ACPI == nil {
		return 0
	}
	free := 0
	for slot := uint(2); slot < 32; slot++ {
		if used[slot] == 0 {
			free++
		}
	}
	return free
}
