package model

import (
	"cmp"
	"slices"
	"strings"
)

// Near lists up to most known words close to an unknown word, nearest first: at most a third of their length in edits away.
func Near(word string, known []string, most int) []string {
	if len(word) > maxWord {
		return nil
	}
	edits := map[string]int{}
	var near []string
	for _, k := range known {
		d := distance(strings.ToLower(word), strings.ToLower(k))
		if _, twice := edits[k]; !twice && d <= max(1, len(k)/3) {
			edits[k] = d
			near = append(near, k)
		}
	}
	slices.SortFunc(near, func(a, b string) int { return cmp.Or(cmp.Compare(edits[a], edits[b]), strings.Compare(a, b)) })
	return near[:min(most, len(near))]
}

// maxWord bounds the work of a comparison: a longer word is not a typing error.
const maxWord = 64

// distance counts the insertions, deletions, replacements and swaps of neighbours that turn a into b.
func distance(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
