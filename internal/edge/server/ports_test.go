package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/api/v1"
	"sluice/internal/edge/edgetest"
	"sluice/internal/edge/server"
	"sluice/internal/model"
)

func TestPutPorts(t *testing.T) {
	const id, mac = "0B0C4FA4-6d2c-4b0e-9a35-5b9a2c2a1f01", "52:54:00:00:00:02"
	port := func(id, tap, mac, rates string) string {
		return fmt.Sprintf(`{"id":%q,"tap":%q,"mac":%q%s}`, id, tap, mac, rates)
	}
	const limit = `,"limit":{"bits_per_second":2e9,"packets_per_second":50000}`
	good := port(id, "tap0b0c4fa4-6d", mac, limit)
	for _, c := range []struct {
		name string
		uid  uint32
		body string
		want int
		has  string
	}{
		{"root", 0, good, http.StatusOK, "tap0b0c4fa4-6d"},
		{"those that may only this", 4003, good, http.StatusOK, ""},
		{"none", 4003, "", http.StatusOK, `"ports":[]`},
		{"those that may say what is claimed", 4004, good, http.StatusForbidden, "api.ports"},
		{"an operator", 4001, good, http.StatusForbidden, "api.ports"},
		{"no UUID", 0, port("p1", "tap1", mac, limit), http.StatusBadRequest, "port 1"},
		{"no tap", 0, port(id, "", mac, limit), http.StatusBadRequest, "interface"},
		{"a path", 0, port(id, "../tap1", mac, limit), http.StatusBadRequest, "interface"},
		{"a long tap", 0, port(id, "tap0123456789abc", mac, limit), http.StatusBadRequest, "interface"},
		{"no MAC", 0, port(id, "tap1", "", limit), http.StatusBadRequest, "MAC"},
		{"no rate", 0, port(id, "tap1", mac, ""), http.StatusBadRequest, "nothing"},
		{"a negative rate", 0, port(id, "tap1", mac, `,"receive":{"bits_per_second":-1}`), http.StatusBadRequest, "-1"},
		{"twice", 0, good + "," + port(id, "tap1", mac, limit), http.StatusBadRequest, "named twice"},
		{"one tap twice", 0, good + "," + port(strings.Replace(id, "0B", "0C", 1), "tap0b0c4fa4-6d", mac, limit), http.StatusBadRequest, "two ports"},
		{"too many", 0, strings.Repeat(good+",", 2000) + good, http.StatusBadRequest, "2001"},
	} {
		b := edgetest.NewBackend(edgetest.View())
		o := options(b)
		o.Operate, o.Claims, o.Ports = "4001", "4004", "4003"
		h := server.NewHandler(o)
		put := func(path, body string) *httptest.ResponseRecorder {
			return record(h, server.AsUser(httptest.NewRequest(http.MethodPut, path, strings.NewReader(body)), c.uid))
		}
		w := put("/v1/ports", `{"ports":[`+c.body+`]}`)
		if w.Code != c.want || !strings.Contains(w.Body.String(), c.has) {
			t.Errorf("%s: %d, %s", c.name, w.Code, model.Shorten(w.Body.String()))
		}
		got := b.Ports()
		if ok := c.want == http.StatusOK && c.body != ""; (len(got) == 1) != ok || ok && (got[0].ID != strings.ToLower(id) ||
			got[0].SLA != model.SLA{Limit: model.Rate{Bits: 2e9, Packets: 50e3}, Source: "Neutron port " + strings.ToLower(id)}) {
			t.Errorf("%s: %+v", c.name, got)
		}
		if w := put("/v1/claims", `{"claims":[]}`); c.uid == 4003 && w.Code != http.StatusForbidden {
			t.Errorf("%s may claim: %d", c.name, w.Code)
		}
	}
}

// Before the daemon has seen its VMs it could not say what it makes of ports.
func TestPortsBeforeTheFirstObservation(t *testing.T) {
	b := edgetest.NewBackend(nil)
	h := server.NewHandler(options(b))
	w := record(h, server.AsUser(httptest.NewRequest(http.MethodPut, "/v1/ports", strings.NewReader(`{"ports":[]}`)), 0))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("PUT: %d, %s", w.Code, w.Body)
	}
}

func TestGetPorts(t *testing.T) {
	v := edgetest.View()
	nic := &v.Snapshot.VMs[0].NICs[0]
	nic.Tap, nic.MAC = "tap1", model.MAC{2, 1}
	v.Rules.Ports = []model.Port{
		{ID: "p0", Tap: "tap0", MAC: model.MAC{2, 1}, SLA: model.SLA{Guarantee: model.Rate{Bits: 1e15}}},
		{ID: "p1", Tap: "tap1", MAC: model.MAC{2, 1}, SLA: model.SLA{Guarantee: model.Rate{Bits: 1e15}, Receive: model.Rate{Bits: 1e9}}},
	}
	w := record(server.NewHandler(options(edgetest.NewBackend(v))), httptest.NewRequest(http.MethodGet, "/v1/ports", http.NoBody))
	var got api.HostPorts
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Ports) != 2 {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if p := got.Ports[0]; p.VM != "" || p.Refused != "" || p.Guarantee.Bits != 1e15 {
		t.Errorf("one that is not here: %+v", p)
	}
	if p := got.Ports[1]; p.VM != v.Snapshot.VMs[0].Name || p.NIC != nic.Alias || p.Refused == "" || p.Remedy == "" || p.Receive.Bits != 1e9 {
		t.Errorf("one that is refused: %+v", p)
	}
}
