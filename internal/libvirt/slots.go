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

// usedSlots walks the whole document for guest addresses, so that a kind of device
// unknown to us counts too. A <source> holds a host address, not a guest's.
func usedSlots(doc string) (pciUse, error) {
	use := pciUse{}
	dec := xml.NewDecoder(strings.NewReader(doc))
	source := 0
	for {
		tok, err := dec.RawToken()
		if tok == nil {
			return use, eofIsNil(err)
		}
		switch t := tok.(type) {
		case xml.StartElement:
			if t.Name.Local == "source" {
				source++
			} else if t.Name.Local == "address" && source == 0 {
				use.add(t.Attr)
			}
		case xml.EndElement:
			if t.Name.Local == "source" {
				source--
			}
		}
	}
}

// add counts one <address>, if it is a PCI one on PCI domain 0.
func (u pciUse) add(attrs []xml.Attr) {
	val := map[string]string{}
	for _, a := range attrs {
		val[a.Name.Local] = a.Value
	}
	if val["type"] != "pci" {
		return
	}
	bus, err1 := strconv.ParseUint(val["bus"], 0, 32)
	slot, err2 := strconv.ParseUint(val["slot"], 0, 32)
	if err1 != nil || err2 != nil {
		return
	}
	if u[uint(bus)] == nil {
		u[uint(bus)] = map[uint]int{}
	}
	u[uint(bus)][uint(slot)]++
}

// freeSlots counts the places where a VF can be hot-plugged: on PCI Express machines
// (q35, virt) the root and downstream ports with nothing behind them, on i440fx
// the free slots of its one bus.
func freeSlots(doc string, x *libvirtxml.Domain) (int, error) {
	if x.Devices == nil {
		return 0, nil
	}
	use, err := usedSlots(doc)
	if err != nil {
		return 0, err
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
	return free, nil
}

func hotplugOff(c *libvirtxml.DomainController) bool {
	return c.PCI != nil && c.PCI.Target != nil && c.PCI.Target.Hotplug == "off"
}

// freeOnConventional: slot 0 is the host bridge, 1 the PIIX3 with IDE, USB and ACPI,
// and without ACPI a guest does not notice a hot-plug.
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
