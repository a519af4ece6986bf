package vpfxml

import (
	"fmt"

	"sluice/internal/host/libvirt/domxml"
	"sluice/internal/model"
)

// WithLink returns the <interface> of that alias with its link up or down, for libvirt's device update, or "" if the link is already in
// that state. It returns an error if there is no such interface.
func WithLink(doc, alias string, up bool) (string, error) {
	d, err := parse(doc)
	if err != nil {
		return "", err
	}
	e := d.ByAlias("interface", alias)
	if e == nil {
		return "", fmt.Errorf("it has no %s: %w", alias, model.ErrGone)
	}
	state := "down"
	if up {
		state = "up"
	}
	link := e.SelectElement("link")
	if have := domxml.ChildAttr(e, "link", "state"); have == state || have == "" && up {
		return "", nil
	}
	if link == nil {
		link = e.CreateElement("link")
	}
	link.CreateAttr("state", state)
	d.Doc.SetRoot(e)
	return d.String()
}

// ChannelPath returns the path of the host's end of the channel in live XML, or "".
func ChannelPath(doc string) (string, error) {
	d, err := parse(doc)
	if err != nil {
		return "", err
	}
	e := d.channel()
	if e == nil || e.SelectAttrValue("type", "") != "unix" || domxml.ChildAttr(e, "source", "mode") != "bind" {
		return "", nil
	}
	return domxml.ChildAttr(e, "source", "path"), nil
}
