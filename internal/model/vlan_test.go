package model

import "testing"

func TestParseVLANs(t *testing.T) {
	for text, want := range map[string]string{"": "", "7": "7", "30, 10-20": "10-20,30", "5-9,1-4,9-12": "1-12", "1-4094": "1-4094"} {
		v, err := ParseVLANs(text)
		if err != nil || v.String() != want {
			t.Errorf("%q is %q, %v; want %q", text, v, err, want)
		}
	}
	for _, text := range []string{"0", "4095", "5-3", "a", "1-", "-4", "1,,2", "1-2-3"} {
		if v, err := ParseVLANs(text); err == nil {
			t.Errorf("%q is taken for %q", text, v)
		}
	}
}

func TestVLANsHold(t *testing.T) {
	v, _ := ParseVLANs("10-20,30")
	for id, want := range map[int]bool{9: false, 10: true, 20: true, 21: false, 30: true, 31: false} {
		if v.Has(id) != want {
			t.Errorf("it has %d: %v", id, v.Has(id))
		}
	}
	for text, want := range map[string]bool{"": true, "12-13,30": true, "20-30": false, "9-10": false} {
		if w, _ := ParseVLANs(text); v.Contains(w) != want {
			t.Errorf("it contains %s: %v", text, !want)
		}
	}
}
