package prometheus_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/edge/fleet"
	"sluice/internal/edge/fleet/fleettest"
	"sluice/internal/edge/fleet/prometheus"
)

// serve answers a query like Prometheus.
func serve(t *testing.T, query, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/query" || r.FormValue("query") != query {
			t.Errorf("asked %s %s", r.URL.Path, r.FormValue("query"))
		}
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestLoad(t *testing.T) {
	var series []string
	for instance, value := range map[string]string{"a:9178": "125000000", "b.example.org:9178": "250000", "c:9178": "1", "[::1]:9178": "1"} {
		series = append(series, fmt.Sprintf(`{"metric": {"instance": %q, "pf": "pf0", "pci_address": %q}, "value": [1, %q]}`,
			instance, fleettest.PF0, value))
	}
	for _, odd := range []string{"NaN", "-1", "+Inf", "1e30"} {
		series = append(series, fmt.Sprintf(`{"metric": {"instance": "a:9178", "pf": "pf1", "pci_address": %q}, "value": [1, %q]}`, fleettest.PF1, odd))
	}
	address := serve(t, prometheus.Query, `{"status": "success", "data": {"resultType": "vector", "result": [`+strings.Join(series, ",")+`]}}`)
	a, b := fleettest.Host("a"), fleettest.Host("b")
	got, err := prometheus.Load(t.Context(), address, []fleet.Host{a, b})
	want := map[string]int{a.PF(fleettest.PF0): 1_000_000, b.PF(fleettest.PF0): 2_000}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

func TestFreeVFs(t *testing.T) {
	address := serve(t, prometheus.VFQuery, `{"status": "success", "data": {"resultType": "vector", "result": [
		{"metric": {"instance": "a:9178", "pf": "pf0", "owner": "free", "pci_address": "`+fleettest.PF0+`"}, "value": [1, "3"]},
		{"metric": {"instance": "a:9178", "pf": "pf1", "owner": "free", "pci_address": "`+fleettest.PF1+`"}, "value": [1, "0"]}]}}`)
	a := fleettest.Host("a")
	got, err := prometheus.FreeVFs(t.Context(), address, []fleet.Host{a})
	if want := map[string]int{a.PF(fleettest.PF0): 3, a.PF(fleettest.PF1): 0}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

func TestNoLoad(t *testing.T) {
	for want, address := range map[string]string{
		"refused":                        "http://127.0.0.1:9",
		"instead of a vector":            serve(t, prometheus.Query, `{"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}}`),
		"too many":                       serve(t, prometheus.Query, `{"status": "error", "errorType": "execution", "error": "too many samples"}`),
		"Prometheus at http://127.0.0.1": serve(t, prometheus.Query, `<html>`),
		"first path segment":             "127.0.0.1:9090",
	} {
		if got, err := prometheus.Load(t.Context(), address, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %s", got, err, want)
		}
	}
}
