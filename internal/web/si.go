package web

import "strconv"

// SI prints a figure with three digits and a prefix: 1234567 is "1.23M".
func SI(x float64) string {
	for _, p := range []struct {
		factor float64
		name   string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if x >= 0.9995*p.factor {
			return strconv.FormatFloat(three(x/p.factor), 'f', -1, 64) + p.name
		}
	}
	return strconv.FormatFloat(three(x), 'f', -1, 64)
}

// three rounds to three digits, and to whole numbers what is below 1.
func three(x float64) float64 {
	if x < 1 {
		return float64(int(x + 0.5))
	}
	f, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	return f
}
