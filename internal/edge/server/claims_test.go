package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/edge/edgetest"
	"sluice/internal/edge/server"
	"sluice/internal/model"
)

func TestPutClaims(t *testing.T) {
	const id = "0B0C4FA4-6d2c-4b0e-9a35-5b9a2c2a1f01"
	claim := func(id, mac, pf, rate string) string {
		return fmt.Sprintf(`{"uuid":%q,"mac":%q,"pci_address":%q,"guarantee":{%s}}`, id, mac, pf, rate)
	}
	const rates = `"bits_per_second":2e9,"packets_per_second":50000`
	good := claim(id, "52:54:00:00:00:02", "0000:01:00.0", rates)
	for _, c := range []struct {
		name string
		uid  uint32
		body string
		want int
		has  string
	}{
		{"root", 0, good, http.StatusOK, ""},
		{"those that may only this", 4003, good, http.StatusOK, ""},
		{"none", 4003, "", http.StatusOK, ""},
		{"an operator", 4001, good, http.StatusForbidden, "api.claims"},
		{"anybody", 4009, good, http.StatusForbidden, "api.claims"},
		{"no UUID", 0, claim("db-1", "52:54:00:00:00:02", "0000:01:00.0", `"bits_per_second":1`), http.StatusBadRequest, "claim 1"},
		{"for a whole VM", 0, claim(id, "", "0000:01:00.0", rates), http.StatusOK, ""},
		{"twice for a whole VM", 0, claim(id, "", "0000:01:00.0", rates) + "," + claim(id, "", "0000:01:00.0", rates), http.StatusBadRequest, "two claims"},
		{"no PF for a whole VM", 0, claim(id, "", "", rates), http.StatusBadRequest, "PCI"},
		{"a MAC of zeros", 0, claim(id, "00:00:00:00:00:00", "0000:01:00.0", rates), http.StatusBadRequest, "MAC"},
		{"no PF", 0, claim(id, "52:54:00:00:00:02", "", `"bits_per_second":1`), http.StatusBadRequest, "PCI"},
		{"no rate", 0, claim(id, "52:54:00:00:00:02", "0000:01:00.0", ""), http.StatusBadRequest, "nothing"},
		{"a negative rate", 0, claim(id, "52:54:00:00:00:02", "0000:01:00.0", `"bits_per_second":-1`), http.StatusBadRequest, "-1"},
		{"twice", 0, good + "," + good, http.StatusBadRequest, "two claims"},
		{"too many", 0, strings.Repeat(good+",", 2000) + good, http.StatusBadRequest, "2001"},
		{"too long", 0, strings.Repeat(good+",", 20000) + good, http.StatusRequestEntityTooLarge, ""},
	} {
		b := edgetest.NewBackend(edgetest.View())
		o := options(b)
		o.Operate, o.Claims = "4001", "4003"
		h := server.NewHandler(o)
		r := httptest.NewRequest(http.MethodPut, "/v1/claims", strings.NewReader(`{"claims":[`+c.body+`]}`))
		w := record(h, server.AsUser(r, c.uid))
		if w.Code != c.want || !strings.Contains(w.Body.String(), c.has) {
			t.Errorf("%s: %d, %s", c.name, w.Code, model.Shorten(w.Body.String()))
		}
		got := b.Claims()
		if ok := c.want == http.StatusOK && c.body != ""; (len(got) == 1) != ok || ok && (got[0].VM != model.VMID(strings.ToLower(id)) ||
			got[0].Guarantee != model.Rate{Bits: 2e9, Packets: 50e3}) {
			t.Errorf("%s: %+v", c.name, got)
		}
		if w := record(h, server.AsUser(post("/v1/drain", ""), c.uid)); c.uid == 4003 && w.Code != http.StatusForbidden {
			t.Errorf("%s may drain: %d", c.name, w.Code)
		}
	}
}
