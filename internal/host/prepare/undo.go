package prepare

import (
	"cmp"
	"slices"
	"strings"

	"github.com/beevik/etree"

	"sluice/internal/host/libvirt/domxml"
	"sluice/internal/model"
)

// Undo removes from a domain's persistent XML what Prepare added, except what other devices have come to depend on. Without a record it
// changes nothing.
func Undo(doc string) (Result, error) {
	e, err := edit(doc, Options{})
	if err != nil {
		return Result{}, err
	}
	if e.record.e == nil {
		e.note("its definition has no record of additions by Sluice")
		return e.result()
	}
	for _, r := range e.record.nics {
		e.part(r)
	}
	e.dropAgent()
	e.dropPorts()
	e.dropACPI()
	metadata := e.record.e.Parent()
	domxml.Remove(e.record.e)
	if e.record.metadata && len(metadata.ChildElements()) == 0 {
		domxml.Remove(metadata)
	}
	e.changed("the record in <metadata> is removed")
	return e.result()
}

// part removes from a NIC what made it half of a pair.
func (e *editor) part(r *nicRecord) {
	var dev *etree.Element
	for _, i := range e.Devices.SelectElements("interface") {
		if mac, err := model.ParseMAC(domxml.ChildAttr(i, "mac", "address")); err == nil && mac == r.mac {
			dev = i
		}
	}
	if dev == nil {
		e.note("NIC %s no longer exists", r.mac)
		return
	}
	if user := e.pairedWith(domxml.AliasOf(dev)); user != "" {
		e.note("NIC %s keeps teaming and alias: a <%s> is now paired with it", r.mac, user)
		return
	}
	if t := dev.SelectElement("teaming"); r.teaming && t != nil {
		domxml.Remove(t)
		e.changed("NIC %s: teaming is removed", r.mac)
	}
	if a := dev.SelectElement("alias"); r.alias != "" && a != nil && a.SelectAttrValue("name", "") == r.alias {
		domxml.Remove(a)
		e.changed("NIC %s: the alias %s is removed", r.mac, r.alias)
	}
}

// pairedWith returns the kind of device that is teamed with the alias, or "".
func (e *editor) pairedWith(alias string) string {
	for _, dev := range e.Devices.ChildElements() {
		if alias != "" && domxml.ChildAttr(dev, "teaming", "persistent") == alias {
			return dev.Tag
		}
	}
	return ""
}

func (e *editor) dropAgent() {
	if !e.record.agent {
		return
	}
	if c := e.ByAlias("channel", agentAlias); c != nil {
		domxml.Remove(c)
		e.changed("channel %s is removed", agentName)
	}
	c := e.ByAlias("controller", serialAlias)
	if c == nil {
		return
	}
	for _, dev := range e.Devices.ChildElements() {
		if domxml.ChildAttr(dev, "address", "type") == "virtio-serial" {
			e.keep(c, "the virtio-serial controller stays: a <%s> is on it", dev.Tag)
			return
		}
	}
	domxml.Remove(c)
}

// dropPorts removes the added ports that are empty, the last first. One with a higher-numbered controller stays, because libvirt would fill
// its index with a port of its own.
func (e *editor) dropPorts() {
	var indexes []int
	all := e.Bridges()
	for i, c := range all {
		if ours(domxml.AliasOf(c)) {
			indexes = append(indexes, i)
		}
	}
	slices.SortFunc(indexes, func(a, b int) int { return cmp.Compare(b, a) })
	for _, i := range indexes {
		last := i
		for k := range e.Bridges() {
			last = max(last, k)
		}
		switch {
		case e.Buses()[i] > 0:
			e.keep(all[i], "the root port of bus %d stays: a device is behind it", i)
		case last > i:
			e.keep(all[i], "the root port of bus %d stays: there are PCI controllers with higher indexes", i)
		default:
			domxml.Remove(all[i])
			e.changed("the root port of bus %d is removed", i)
		}
	}
}

// ours reports whether Prepare added the port.
func ours(alias string) bool {
	return alias == serialPort || strings.HasPrefix(alias, portPrefix)
}

// keep leaves a device that others depend on, but removes the alias that marks it as added.
func (e *editor) keep(dev *etree.Element, format string, args ...any) {
	domxml.Remove(dev.SelectElement("alias"))
	e.note(format, args...)
}

func (e *editor) dropACPI() {
	features := e.Root.SelectElement("features")
	if !e.record.acpi || features == nil {
		return
	}
	if a := features.SelectElement("acpi"); a != nil {
		domxml.Remove(a)
		e.changed("ACPI is removed")
	}
	if e.record.features && len(features.ChildElements()) == 0 {
		domxml.Remove(features)
	}
}
