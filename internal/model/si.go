package model

import (
	"math"
	"strconv"
	"strings"
)

// SI prints a number with three significant digits and a prefix: 1234567 is "1.23M", 0.25 is "0.25", 0.004 is "0".
func SI(x float64) string { return SIDigits(x, 3) }

// Bits prints bits, or bits per second, rounded for display: 1.5e9 is "1.5Gbit". Rate.String is exact.
func Bits(x float64) string { return SI(x) + "bit" }

// PPS prints packets per second, rounded for display: 2e5 is "200kpps".
func PPS(x float64) string { return SI(x) + "pps" }

// SIDigits is SI with a given number of significant digits, at most digits-1 of them after the decimal point.
func SIDigits(x float64, digits int) string {
	half := 0.5 / math.Pow10(digits-1) // half a unit of the last digit, for numbers from 1 to 10
	unit := ""
	for _, u := range []string{"k", "M", "G", "T"} {
		if math.Abs(x) < 1000-100*half {
			break
		}
		x, unit = x/1000, u
	}
	places := digits - 1
	for limit := 10 - half; places > 0 && math.Abs(x) >= limit; limit *= 10 {
		places--
	}
	s := strconv.FormatFloat(x, 'f', places, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		s = "0"
	}
	return s + unit
}
