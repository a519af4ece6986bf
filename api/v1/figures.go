package api

import (
	"encoding/json"
	"math"
	"strconv"
)

// Figures is a series of values. NaN is an unknown value, null in JSON. JSON values have one decimal below 100 and none
// above.
type Figures []float32

// MarshalJSON implements json.Marshaler.
func (f Figures) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 2+7*len(f))
	b = append(b, '[')
	for i, x := range f {
		if i > 0 {
			b = append(b, ',')
		}
		switch v := float64(x); {
		case math.IsNaN(v), math.IsInf(v, 0):
			b = append(b, "null"...)
		case math.Abs(v) < 100 && v != math.Trunc(v):
			b = strconv.AppendFloat(b, v, 'f', 1, 64)
		default:
			b = strconv.AppendFloat(b, v, 'f', 0, 64)
		}
	}
	return append(b, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *Figures) UnmarshalJSON(data []byte) error {
	var list []*float32
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	*f = make(Figures, len(list))
	for i, p := range list {
		(*f)[i] = float32(math.NaN())
		if p != nil {
			(*f)[i] = *p
		}
	}
	return nil
}
