package libvirt

import (
	"testing"
	"time"

	lv "github.com/digitalocean/go-libvirt"
)

// TestSameXMLIsParsedOnce checks that a domain's XML is parsed again exactly when it has changed, and that what is stored of it is
// not touched by what is filled in later.
func TestSameXMLIsParsedOnce(t *testing.T) {
	const before = `<domain><name>a</name><uuid>4dea22b3-1d52-d8f3-2516-782e98ab3fa0</uuid></domain>`
	const after = `<domain><name>b</name><uuid>4dea22b3-1d52-d8f3-2516-782e98ab3fa0</uuid></domain>`
	c := &Conn{}
	first, err := c.parse("4dea22b3-1d52-d8f3-2516-782e98ab3fa0", before)
	if err != nil {
		t.Fatal(err)
	}
	first.dom.Name = "from the last time"
	c.inv.put(reading{dom: first.dom, text: first, state: lv.DomainRunning}, false, time.Unix(1, 0))
	if p, err := c.parse(first.dom.ID, before); err != nil || p.dom.Name != "from the last time" {
		t.Errorf("the same XML: %q, %v; want what the last time said", p.dom.Name, err)
	}
	if p, err := c.parse(first.dom.ID, after); err != nil || p.dom.Name != "b" {
		t.Errorf("another XML: %q, %v; want b", p.dom.Name, err)
	}
}
