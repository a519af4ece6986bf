package server

import (
	"path"
	"strings"
	"unicode"

	"sluice/api/v1"
)

// readSLA parses the SLA of a request.
func readSLA(verb api.Verb, b *api.Request, c *Command) error {
	about := verb == api.VerbSetSLA || verb == api.VerbClearSLA
	if _, err := path.Match(b.NIC, ""); b.NIC != "" && (!about || err != nil || !shortText(b.NIC)) {
		return &api.Error{
			Text:   "the nic given is not a pattern that " + phrase(verb) + " accepts",
			Remedy: "write a NIC's alias, MAC or network, or leave it out for every NIC",
		}
	}
	c.NIC = b.NIC
	if verb != api.VerbSetSLA {
		if b.SLA != nil {
			return &api.Error{Text: phrase(verb) + " takes no SLA", Remedy: "leave it out"}
		}
		return nil
	}
	if b.SLA == nil || *b.SLA == (api.SLA{}) {
		return &api.Error{Text: "the SLA is empty", Remedy: "give a guarantee, a limit, a receive limit, a weight or a class"}
	}
	in := b.SLA
	if in.Class != "" && !shortText(in.Class) {
		return &api.Error{Text: "that is not the name of a class", Remedy: "write one of classes in sluice.yaml"}
	}
	c.SLA.Class = in.Class
	return changeSLA(&c.SLA, &api.PortChange{Guarantee: &in.Guarantee, Limit: &in.Limit, Receive: &in.Receive, Weight: &in.Weight})
}

// shortText reports whether text is a short printable word.
func shortText(text string) bool {
	return len(text) <= 64 && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// phrase returns a verb as used in a sentence.
func phrase(v api.Verb) string {
	switch v {
	case api.VerbSetSLA:
		return "set SLAs"
	case api.VerbClearSLA:
		return "clear SLAs"
	}
	return string(v)
}
