package browsertest

import (
	"os"
	"testing"
)

func TestLook(t *testing.T) {
	url := os.Getenv("SLUICE_LOOK")
	if url == "" {
		t.Skip("SLUICE_LOOK names no page")
	}
	b := browser(t)
	for _, l := range looks {
		p := open(t, b, url, l)
		p.expected = func(string) bool { return true }
		p.until("document.querySelectorAll('.vm-list tbody tr').length > 5")
		p.whole()
		p.shoot("look-" + l.String())
	}
}
