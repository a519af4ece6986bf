package placement

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/model"
	"sluice/internal/tests/golden"
)

func TestReferenceListsEveryParameter(t *testing.T) {
	var b strings.Builder
	b.WriteString("| policy | parameter | unit | default | value | meaning, and when to change it |\n| --- | --- | --- | --- | --- | --- |\n")
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	for _, policy := range Names() {
		for _, p := range Policies()[policy].Params {
			fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s to %s | %s |\n", policy, p.Name, p.Unit, number(p.Default), number(p.Min), number(p.Max),
				p.Doc)
		}
	}
	golden.Section(t, "../../../docs/config.md", "parameters", b.String())
}

func TestParametersHaveSoundRanges(t *testing.T) {
	for policy, info := range Policies() {
		for _, p := range info.Params {
			if p.Default < p.Min || p.Default > p.Max || p.Min < 0 || p.Doc == "" {
				t.Errorf("%s: %+v", policy, p)
			}
		}
	}
}

// A parameter that is set applies, even if it is zero.
func TestZeroIsAValue(t *testing.T) {
	for _, c := range []struct {
		set  model.Params
		want float64
	}{{nil, 0.05}, {model.Params{"margin": 0}, 0}, {model.Params{"margin": 2}, 2}} {
		if got := newAdaptive(model.Rules{Params: c.set}).(*adaptive).margin; got != c.want {
			t.Errorf("%v: margin %v, want %v", c.set, got, c.want)
		}
	}
}
