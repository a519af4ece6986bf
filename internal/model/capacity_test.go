package model

import "testing"

// What sluice.yaml says ranks above what was measured, and that above the driver's speed, which nothing exceeds.
func TestCapacity(t *testing.T) {
	const g = 1e9
	for _, c := range []struct {
		name                        string
		speed, measured, configured uint64
		want                        Capacity
		text                        string
	}{
		{"nobody knows", 0, 0, 0, Capacity{}, "unknown: its driver reports no speed"},
		{"the driver", 10 * g, 0, 0, Capacity{10 * g, 10 * g, CapacityDriver, ""}, "10Gbit, its driver's speed"},
		{
			"measured", 10 * g, 9.4 * g, 0,
			Capacity{9.4 * g, 10 * g, CapacityQualified, "untagged"},
			"9.4Gbit of 10Gbit, measured by `sluice qualify` (untagged)",
		},
		{"configured", 10 * g, 0, 2 * g, Capacity{2 * g, 10 * g, CapacityConfigured, ""}, "2Gbit of 10Gbit, set in sluice.yaml"},
		{
			"configured, and less was measured", 10 * g, 9.4 * g, 9.8 * g,
			Capacity{9.8 * g, 10 * g, CapacityConfigured, ""},
			"9.8Gbit of 10Gbit, set in sluice.yaml",
		},
		{
			"configured as the driver says, and less was measured", 10 * g, 9.4 * g, 10 * g,
			Capacity{10 * g, 10 * g, CapacityConfigured, ""},
			"10Gbit, set in sluice.yaml",
		},
		{
			"configured above the driver's speed", 10 * g, 9.4 * g, 25 * g,
			Capacity{10 * g, 10 * g, CapacityDriver, "sluice.yaml says 25Gbit"},
			"10Gbit, its driver's speed (sluice.yaml says 25Gbit)",
		},
		{
			"measured above the driver's speed", 1 * g, 9.4 * g, 0,
			Capacity{1 * g, 1 * g, CapacityDriver, "`sluice qualify` measured 9.4Gbit"},
			"1Gbit, its driver's speed (`sluice qualify` measured 9.4Gbit)",
		},
		{"only configured", 0, 0, 2 * g, Capacity{2 * g, 0, CapacityConfigured, ""}, "2Gbit, set in sluice.yaml"},
		{"measured and configured without a speed", 0, 9 * g, 20 * g, Capacity{20 * g, 0, CapacityConfigured, ""}, "20Gbit, set in sluice.yaml"},
	} {
		pf := PF{Speed: c.speed}
		pf.Carry(c.measured, CapacityQualified, "untagged")
		pf.Carry(c.configured, CapacityConfigured, "")
		got := pf.Capacity()
		if got != c.want || got.String() != c.text || pf.Shared() != got.Bits || pf.Speed != c.speed {
			t.Errorf("%s: %+v, %q, shared %d, want %+v, %q", c.name, got, got, pf.Shared(), c.want, c.text)
		}
	}
}

// An estimate names what it replaces, and never exceeds that.
func TestInferredCapacity(t *testing.T) {
	said := Capacity{9.4e9, 10e9, CapacityQualified, "untagged"}
	got := said.Inferred(9e9)
	if want := "9Gbit of 10Gbit, inferred: senders want more than it carries (otherwise 9.4Gbit of 10Gbit, measured by `sluice qualify` " +
		"(untagged))"; got.Bits != 9e9 || got.Source != CapacityInferred || got.String() != want {
		t.Errorf("%+v, %q, want %q", got, got, want)
	}
	if got := said.Inferred(11e9); got.Bits != 9.4e9 {
		t.Errorf("an estimate of 11e9 makes it %d", got.Bits)
	}
	driver := Capacity{10e9, 10e9, CapacityDriver, ""}
	if got := driver.Inferred(9e9).String(); got != "9Gbit of 10Gbit, inferred: senders want more than it carries" {
		t.Errorf("%q", got)
	}
	if got := said.Inferred(-1); got.Bits != 0 {
		t.Errorf("an estimate of -1 makes it %d", got.Bits)
	}
}
