package model

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// VLANRange is a range of VLAN IDs from First to Last, inclusive, within 1-4094.
type VLANRange struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// VLANs is a set of VLAN IDs: sorted ranges that neither overlap nor touch.
type VLANs []VLANRange

// MaxVLAN is the highest VLAN ID (IEEE 802.1Q).
const MaxVLAN = 4094

// ParseVLANs parses a set such as "10-20,30".
func ParseVLANs(text string) (VLANs, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var all VLANs
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if err != nil || first < 1 || last > MaxVLAN || last < first {
			return nil, Wrong(text, "is not a set of VLANs", "write IDs from 1 to 4094 and ranges of them, such as 10-20,30")
		}
		all = append(all, VLANRange{first, last})
	}
	return all.Joined(), nil
}

// Joined returns the same set as sorted ranges that neither overlap nor touch.
func (v VLANs) Joined() VLANs {
	v = slices.Clone(v)
	slices.SortFunc(v, func(a, b VLANRange) int { return cmp.Compare(a.First, b.First) })
	out := v[:0]
	for _, r := range v {
		if n := len(out); n > 0 && r.First <= out[n-1].Last+1 {
			out[n-1].Last = max(out[n-1].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
}

// String prints the set as ParseVLANs reads it.
func (v VLANs) String() string {
	parts := make([]string, len(v))
	for i, r := range v {
		parts[i] = strconv.Itoa(r.First)
		if r.Last > r.First {
			parts[i] += "-" + strconv.Itoa(r.Last)
		}
	}
	return strings.Join(parts, ",")
}

// Has reports whether the ID is in the set.
func (v VLANs) Has(id int) bool {
	return slices.ContainsFunc(v, func(r VLANRange) bool { return r.First <= id && id <= r.Last })
}

// Contains reports whether all of w is in the set.
func (v VLANs) Contains(w VLANs) bool {
	for _, r := range w {
		if !slices.ContainsFunc(v, func(mine VLANRange) bool { return mine.First <= r.First && r.Last <= mine.Last }) {
			return false
		}
	}
	return true
}
