package config

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Rate is a rate a VM may send; zero parts are unset.
type Rate struct {
	Bits    uint64 // bits per second
	Packets uint64 // packets per second
}

// IsZero says whether nothing is set.
func (r Rate) IsZero() bool { return r == Rate{} }

// String prints the rate as ParseRate reads it, "" when unset.
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

// MarshalText prints the rate as it is written in sluice.yaml.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// ParseRate reads one or two rates with their units: bits per second ("10Gbit"),
// packets per second ("200kpps"), or both with a space between.
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
			return Rate{}, wrong(s, "gives the same kind of rate twice", "keep one number for bits and one for packets, such as 10Gbit 200kpps")
		}
		*part = n
	}
	if r.IsZero() {
		return r, wrong(s, "is no rate", rateForm)
	}
	return r, nil
}

const rateForm = "write a number with its unit, such as 10Gbit, 500Mbit or 200kpps"

// badValue is a complaint about a value that carries its own remedy.
type badValue struct{ text, remedy string }

func (e *badValue) Error() string { return e.text + "; " + e.remedy }

func wrong(value, text, remedy string) error {
	return &badValue{fmt.Sprintf("%q %s", shorten(value), text), remedy}
}

// shorten keeps an error readable when the value is not.
func shorten(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// rateWord is a number, exact enough for any rate, and what follows it.
var rateWord = regexp.MustCompile(`^([0-9]{1,15}(?:\.[0-9]{1,9})?)([A-Za-z/]*)$`)

// scale is the factor of a lower-case prefix.
func scale(prefix string) (uint64, bool) {
	f, ok := map[string]uint64{"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}[prefix]
	return f, ok
}

// parseOneRate reads "10Gbit" into 1e10 and "bit", "200kpps" into 2e5 and "pps".
func parseOneRate(word string) (uint64, string, error) {
	m := rateWord.FindStringSubmatch(word)
	switch {
	case m == nil:
		return 0, "", wrong(word, "is no rate", rateForm)
	case m[2] == "":
		return 0, "", wrong(word, "has no unit", fmt.Sprintf("write %sMbit, %sGbit or %skpps", m[1], m[1], m[1]))
	}
	base, ok := strings.CutSuffix(strings.ToLower(m[2]), "bit")
	kind := "bit"
	if !ok {
		base, ok = strings.CutSuffix(strings.ToLower(m[2]), "pps")
		kind = "pps"
	}
	factor, known := scale(base)
	if !ok || !known {
		return 0, "", wrong(word, "has an unknown unit", "rates are in bit, kbit, Mbit, Gbit or Tbit a second, packets in pps, kpps or Mpps")
	}
	n, err := multiply(m[1], factor)
	if err != nil {
		return 0, "", wrong(word, err.Error(), rateForm)
	}
	return n, kind, nil
}

// maxRate is far above any link and keeps sums within 64 bits.
const maxRate = 1e15

// multiply computes the whole number text x factor, exactly.
func multiply(text string, factor uint64) (uint64, error) {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, errors.New("is no number")
	}
	r.Mul(r, new(big.Rat).SetInt(new(big.Int).SetUint64(factor)))
	switch {
	case !r.IsInt():
		return 0, errors.New("is not a whole number of bits or packets a second")
	case r.Sign() == 0:
		return 0, errors.New("is zero; leave the key out for none")
	case !r.Num().IsUint64() || r.Num().Uint64() > maxRate:
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

// parseDuration reads a positive duration with its unit.
func parseDuration(s string) (time.Duration, error) {
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return 0, wrong(s, "has no unit", fmt.Sprintf("write %ss for seconds, %sm for minutes or %sms for milliseconds", s, s, s))
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, wrong(s, "is no duration", "write a number with its unit, such as 500ms, 30s, 5m or 2h")
	}
	return d, nil
}

// VFSet is a set of VF indices of one PF.
type VFSet struct {
	All    bool
	Ranges []VFRange // sorted, not overlapping; nil when All
}

// VFRange is a run of VF indices, both ends included.
type VFRange struct{ First, Last int }

// String prints the set as ParseVFSet reads it.
func (s VFSet) String() string {
	if s.All {
		return "all"
	}
	parts := make([]string, len(s.Ranges))
	for i, r := range s.Ranges {
		parts[i] = strconv.Itoa(r.First)
		if r.Last > r.First {
			parts[i] += "-" + strconv.Itoa(r.Last)
		}
	}
	return strings.Join(parts, ",")
}

// MarshalText prints the set as it is written in sluice.yaml.
func (s VFSet) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// maxVF is the largest VF index PCI Express can name.
const maxVF = 65534

// ParseVFSet reads "all" or indices such as "0-3,6", in rising order.
func ParseVFSet(s string) (VFSet, error) {
	const form = "write indices that rise, such as 0-3,6, or all"
	if s == "all" {
		return VFSet{All: true}, nil
	}
	var set VFSet
	next := 0
	for part := range strings.SplitSeq(s, ",") {
		r, ok := parseRange(strings.TrimSpace(part))
		if !ok {
			return VFSet{}, wrong(s, "is no list of VF indices", form)
		}
		if r.First < next || r.Last < r.First {
			return VFSet{}, wrong(s, fmt.Sprintf("names VFs twice or not in rising order at %q", strings.TrimSpace(part)), form)
		}
		set.Ranges = append(set.Ranges, r)
		next = r.Last + 1
	}
	return set, nil
}

// parseRange reads "6" or "0-3".
func parseRange(s string) (VFRange, bool) {
	first, last, two := strings.Cut(s, "-")
	a, ok := parseIndex(first)
	if !two {
		return VFRange{a, a}, ok
	}
	b, ok2 := parseIndex(last)
	return VFRange{a, b}, ok && ok2
}

func parseIndex(s string) (int, bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 16)
	return int(n), err == nil && n <= maxVF
}
