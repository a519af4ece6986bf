package model

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// Rate is a rate at which a VM may send; zero parts are unset.
type Rate struct {
	Bits    uint64 `json:"bits_s,omitempty"`    // layer-2 bits per second
	Packets uint64 `json:"packets_s,omitempty"` // packets per second
}

// IsZero reports whether nothing is set.
func (r Rate) IsZero() bool { return r == Rate{} }

// Exceeds reports whether a part of the rate is above that of a limit, if the limit sets it.
func (r Rate) Exceeds(limit Rate) bool {
	return limit.Bits > 0 && r.Bits > limit.Bits || limit.Packets > 0 && r.Packets > limit.Packets
}

// Capped returns the rate with each part at most that of a limit, if the limit sets it.
func (r Rate) Capped(limit Rate) Rate {
	if limit.Bits > 0 {
		r.Bits = min(r.Bits, limit.Bits)
	}
	if limit.Packets > 0 {
		r.Packets = min(r.Packets, limit.Packets)
	}
	return r
}

// Conflicts reports whether both set a part, to different values.
func (r Rate) Conflicts(o Rate) bool {
	differ := func(a, b uint64) bool { return a > 0 && b > 0 && a != b }
	return differ(r.Bits, o.Bits) || differ(r.Packets, o.Packets)
}

// String prints the rate as ParseRate reads it, "" if unset.
func (r Rate) String() string {
	var parts []string
	if r.Bits > 0 {
		parts = append(parts, scaled(r.Bits)+"bit")
	}
	if r.Packets > 0 {
		parts = append(parts, scaled(r.Packets)+"pps")
	}
	return strings.Join(parts, " ")
}

// ParseRate parses one or two rates with units: bits per second ("10Gbit"), packets per second ("200kpps"), or both separated by
// a space.
func ParseRate(s string) (Rate, error) {
	var r Rate
	for _, word := range strings.Fields(s) {
		n, unit, err := parseOneRate(word)
		if err != nil {
			return Rate{}, err
		}
		part := &r.Bits
		if unit == "pps" {
			part = &r.Packets
		}
		if *part != 0 {
			return Rate{}, Wrong(s, "gives the same kind of rate twice", "keep one number for bits and one for packets, such as 10Gbit 200kpps")
		}
		*part = n
	}
	if r.IsZero() {
		return r, Wrong(s, "is not a rate", rateForm)
	}
	return r, nil
}

const rateForm = "write a number with its unit, such as 10Gbit, 500Mbit or 200kpps"

// BadValue is an error about a value, with its remedy.
type BadValue struct{ Text, Remedy string }

func (e *BadValue) Error() string { return e.Text + "; " + e.Remedy }

// Wrong returns the error about a value: what is wrong with it, and the remedy.
func Wrong(value, text, remedy string) error {
	return &BadValue{fmt.Sprintf("%q %s", Shorten(value), text), remedy}
}

// Shorten truncates a value for use in an error message.
func Shorten(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// rateWord is a number, exact enough for any rate, and its unit.
var rateWord = regexp.MustCompile(`^([0-9]{1,15}(?:\.[0-9]{1,9})?)([A-Za-z/]*)$`)

// scale returns the factor of a lower-case SI prefix.
func scale(prefix string) (uint64, bool) {
	f, ok := map[string]uint64{"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}[prefix]
	return f, ok
}

// parseOneRate parses "10Gbit" into 1e10 and "bit", "200kpps" into 2e5 and "pps".
func parseOneRate(word string) (uint64, string, error) {
	m := rateWord.FindStringSubmatch(word)
	switch {
	case m == nil:
		return 0, "", Wrong(word, "is not a rate", rateForm)
	case strings.Trim(m[1], "0.") == "":
		return 0, "", Wrong(word, "is zero", "leave it out for none")
	case m[2] == "":
		return 0, "", Wrong(word, "has no unit", fmt.Sprintf("write %sMbit, %sGbit or %skpps", m[1], m[1], m[1]))
	}
	base, ok := strings.CutSuffix(strings.ToLower(m[2]), "bit")
	kind := "bit"
	if !ok {
		base, ok = strings.CutSuffix(strings.ToLower(m[2]), "pps")
		kind = "pps"
	}
	factor, known := scale(base)
	if !ok || !known {
		return 0, "", Wrong(word, "has an unknown unit", "write rates in bit, kbit, Mbit, Gbit or Tbit per second, packets in pps, kpps or Mpps")
	}
	n, err := multiply(m[1], factor)
	if err != nil {
		return 0, "", Wrong(word, err.Error(), rateForm)
	}
	return n, kind, nil
}

// MaxRate is far above any link and keeps sums within 64 bits.
const MaxRate = 1e15

// multiply returns the product of text and factor, which must be a whole number, exactly.
func multiply(text string, factor uint64) (uint64, error) {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, errors.New("is not a number")
	}
	r.Mul(r, new(big.Rat).SetInt(new(big.Int).SetUint64(factor)))
	switch {
	case !r.IsInt():
		return 0, errors.New("is not a whole number of bits or packets per second")
	case !r.Num().IsUint64() || r.Num().Uint64() > MaxRate:
		return 0, errors.New("is above 1000 Tbit or Tpps")
	}
	return r.Num().Uint64(), nil
}

// scaled prints n with the largest prefix that keeps it whole.
func scaled(n uint64) string {
	for _, p := range []struct {
		factor uint64
		name   string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n%p.factor == 0 {
			return strconv.FormatUint(n/p.factor, 10) + p.name
		}
	}
	return strconv.FormatUint(n, 10)
}
