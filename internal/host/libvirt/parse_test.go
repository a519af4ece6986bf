package libvirt

import (
	"testing"
	"time"

	lv "github.com/digitalocean/go-libvirt"
)

// TestSameXMLIsParsedOnce checks that a domain's XML is parsed again exactly when it has changed, and that what callers fill in later
// does not become a part of it.
func TestSameXMLIsParsedOnce(t *testing.T) {
	const head, tail = `<domain><name>`, `</name><uuid>4dea22b3-1d52-d8f3-2516-782e98ab3fa0</uuid><devices>
		<interface type='network'><mac address='52:54:00:00:00:01'/><source network='lan'/><target dev='tap0'/><model type='virtio'/><alias name='net0'/></interface>
	</devices></domain>`
	c := &Conn{}
	first, err := c.parse("4dea22b3-1d52-d8f3-2516-782e98ab3fa0", head+"a"+tail)
	if err != nil || len(first.dom.NICs) != 1 {
		t.Fatalf("%+v, %v", first.dom, err)
	}
	first.dom.Name = "from the last time"
	filled := first.dom.copy()
	filled.NICs[0].Network = "virbr7"
	c.inv.put(reading{dom: filled, text: first, state: lv.DomainRunning}, false, time.Unix(1, 0))
	p, err := c.parse(first.dom.ID, head+"a"+tail)
	if err != nil || p.dom.Name != "from the last time" || p.dom.NICs[0].Network == "virbr7" {
		t.Errorf("the same XML: %+v, %v; want what the last time said", p.dom.VM, err)
	}
	if p, err := c.parse(first.dom.ID, head+"b"+tail); err != nil || p.dom.Name != "b" {
		t.Errorf("another XML: %q, %v; want b", p.dom.Name, err)
	}
}
