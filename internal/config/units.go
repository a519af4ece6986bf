package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/internal/model"
)

// Rate is a rate in bits/s and packets/s.
type Rate = model.Rate

// parseDuration parses a positive duration with its unit.
func parseDuration(s string) (time.Duration, error) {
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return 0, model.Wrong(s, "has no unit", fmt.Sprintf("write %ss for seconds, %sm for minutes or %sms for milliseconds", s, s, s))
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, model.Wrong(s, "is not a duration", "write a number with its unit, such as 500ms, 30s, 5m or 2h")
	}
	return d, nil
}

// VFSet is a set of VF indices of one PF.
type VFSet struct {
	All    bool
	Ranges []VFRange // sorted, not overlapping; nil when All
}

// VFRange is a range of VF indices, both ends included.
type VFRange struct{ First, Last int }

// String formats the set as ParseVFSet reads it.
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

// maxVF is the largest VF index that PCI Express allows.
const maxVF = 65534

// ParseVFSet parses "all" or indices such as "0-3,6", in ascending order.
func ParseVFSet(s string) (VFSet, error) {
	const form = "write ascending indices, such as 0-3,6, or all"
	if s == "all" {
		return VFSet{All: true}, nil
	}
	var set VFSet
	next := 0
	for part := range strings.SplitSeq(s, ",") {
		r, ok := parseRange(strings.TrimSpace(part))
		if !ok {
			return VFSet{}, model.Wrong(s, "is not a list of VF indices", form)
		}
		if r.First < next || r.Last < r.First {
			return VFSet{}, model.Wrong(s, fmt.Sprintf("names VFs twice or not in ascending order at %q", strings.TrimSpace(part)), form)
		}
		set.Ranges = append(set.Ranges, r)
		next = r.Last + 1
	}
	return set, nil
}

// parseRange parses "6" or "0-3".
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
