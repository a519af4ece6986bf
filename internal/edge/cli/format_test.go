package cli

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// Names from guests and other users cannot control the terminal in JSON output either, and are preserved.
func TestJSONHasNoCharactersThatPlayWithTheTerminal(t *testing.T) {
	names := []string{
		"web-1", "größe 東京", "a\x1b[31mb\x07\x7f", "c\u0085\u009b2Jd", "\u202egpj.exe\u2066\u200f", "e\u2028f\ufeff",
		"\U000e0041", "<&>\"\\",
	}
	var b strings.Builder
	if err := show(&b, &output{json: true}, names, nil); err != nil {
		t.Fatal(err)
	}
	for _, r := range b.String() {
		if r != '\n' && !strconv.IsPrint(r) {
			t.Errorf("%U is printed as it is", r)
		}
	}
	if !strings.Contains(b.String(), "größe 東京") {
		t.Errorf("plain text is hard to read: %s", b.String())
	}
	var back []string
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil || strings.Join(back, "|") != strings.Join(names, "|") {
		t.Errorf("%q is read back, %v", back, err)
	}
}
