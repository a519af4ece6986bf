package server

import (
	"fmt"
	"path"
	"strings"
	"unicode"

	"sluice/api/v1"
	"sluice/internal/model"
)

// readSLA parses the SLA of a request.
func readSLA(verb api.Verb, b *api.Request, c *Command) error {
	about := verb == api.VerbSetSLA || verb == api.VerbClearSLA
	if _, err := path.Match(b.NIC, ""); b.NIC != "" && (!about || err != nil || !shortText(b.NIC)) {
		return &api.Error{
			Text:   "nic is no pattern that " + doing(verb) + " takes",
			Remedy: "write a NIC's alias, MAC or network, or leave it out for each NIC",
		}
	}
	c.NIC = b.NIC
	if verb != api.VerbSetSLA {
		if b.SLA != nil {
			return &api.Error{Text: doing(verb) + " takes no SLA", Remedy: "leave it out"}
		}
		return nil
	}
	if b.SLA == nil || *b.SLA == (api.SLA{}) {
		return &api.Error{Text: "the SLA says nothing", Remedy: "give a guarantee, a limit, a limit of what it receives, a weight or a class"}
	}
	return parseSLA(b.SLA, &c.SLA)
}

func parseSLA(in *api.SLA, out *model.SLA) error {
	for _, r := range []struct {
		name, text string
		to         *model.Rate
	}{{"guarantee", in.Guarantee, &out.Guarantee}, {"limit", in.Limit, &out.Limit}, {"receive", in.Receive, &out.Receive}} {
		if r.text == "" {
			continue
		}
		rate, err := model.ParseRate(r.text)
		if err != nil {
			return badValue(r.name, err)
		}
		*r.to = rate
	}
	out.Weight, out.Class = in.Weight, in.Class
	g, l := out.Guarantee, out.Limit
	switch {
	case l.Bits > 0 && g.Bits > l.Bits, l.Packets > 0 && g.Packets > l.Packets:
		return &api.Error{
			Text:   fmt.Sprintf("the guarantee of %s is above the limit of %s", g, l),
			Remedy: "raise the limit or lower the guarantee",
		}
	case in.Weight != 0 && !(in.Weight >= 0.001 && in.Weight <= 1000):
		return &api.Error{Text: "the weight is out of range", Remedy: "write a number from 0.001 to 1000"}
	case in.Class != "" && !shortText(in.Class):
		return &api.Error{Text: "the class is no name", Remedy: "write one of classes in sluice.yaml"}
	}
	return nil
}

// shortText reports whether text is a short printable word.
func shortText(text string) bool {
	return len(text) <= 64 && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// doing returns a verb as used in a sentence.
func doing(v api.Verb) string {
	switch v {
	case api.VerbSetSLA:
		return "set SLAs"
	case api.VerbClearSLA:
		return "clear SLAs"
	}
	return string(v)
}
