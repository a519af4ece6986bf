package model

import "testing"

func TestSI(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 0.5: "0.5", 9.994: "9.99", 12.34: "12.3", 123.4: "123", 999.6: "1k", 40330: "40.3k", 1e6: "1M", 1.234e6: "1.23M", -2500: "-2.5k",
		5e12: "5T", -0.001: "0", 0.25: "0.25", 1: "1", 999: "999", 999.4: "999", 1234: "1.23k", 1234567: "1.23M", 9.99e8: "999M", 1e9: "1G",
		2.5e12: "2.5T",
	} {
		if got := SI(x); got != want {
			t.Errorf("SI(%v) = %q, want %q", x, got, want)
		}
	}
}
