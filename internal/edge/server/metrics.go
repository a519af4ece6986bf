package server

import (
	"net/http"

	"sluice/internal/edge/metrics"
	"sluice/internal/model"
)

// metricsHandler serves the metrics of the latest View.
func metricsHandler(o Options) http.Handler {
	options := metrics.Options{
		Version: o.Version, Examine: o.Examine, Stale: o.Stale, Now: o.Now, VirtualPFs: o.VirtualPFs, Process: o.Process,
	}
	text := &rendered{good: renderedFor, render: func(v *model.View) []byte { return metrics.Text(v, options) }}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", metrics.ContentType)
		v, _ := o.Backend.View()
		_, _ = w.Write(text.of(orEmpty(v))) // the client may have disconnected
	})
}
