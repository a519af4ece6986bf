package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"sluice/api/v1"
	"sluice/internal/edge/answer"
	"sluice/internal/model"
)

// ports lists the ports of Neutron that the host was told of.
func (h *handler) ports(v *model.View) api.HostPorts { return answer.Ports(v.Snapshot, &v.Rules) }

// putPorts replaces the ports of Neutron whose QoS policies the host keeps.
func (h *handler) putPorts(w http.ResponseWriter, r *http.Request) {
	who := peerOf(r.Context())
	if !h.authorize(w, who, "ports", "say what ports of Neutron ask for", RolePorts) {
		return
	}
	var body api.SetPorts
	if err := decode(r.Body, &body); err != nil {
		writeError(w, statusOf(err, http.StatusBadRequest), badBody(err, "see docs/api.md for its fields"))
		return
	}
	ports, err := readPorts(body.Ports)
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	if !answer.Observed(h.view()) {
		notObserved(w)
		return
	}
	res, changed, err := h.opts.Backend.SetPorts(r.Context(), ports)
	if err != nil {
		h.opts.Logger.Warn("the ports of Neutron cannot be set", "by", who.String(), "error", err)
		writeError(w, statusOf(err, http.StatusInternalServerError), err)
		return
	}
	if changed {
		h.opts.Logger.Info("the ports of Neutron have changed", "by", who.String(), "ports", len(ports))
	}
	writeJSON(w, http.StatusOK, res)
}

// readPorts checks ports, and sorts them.
func readPorts(list []api.HostPort) ([]model.Port, error) {
	if len(list) > api.MostPorts {
		return nil, &api.Error{Text: fmt.Sprintf("%d ports are too many", len(list)), Remedy: fmt.Sprintf("send at most %d", api.MostPorts)}
	}
	out, ids := make([]model.Port, 0, len(list)), map[string]bool{}
	for i := range list {
		p, err := readPort(&list[i])
		if err == nil && ids[p.ID] {
			err = fmt.Errorf("port %s is named twice", p.ID)
		}
		if err != nil {
			return nil, &api.Error{Text: fmt.Sprintf("port %d: %v", i+1, err), Remedy: "see docs/api.md for its fields"}
		}
		ids[p.ID] = true
		out = append(out, p)
	}
	slices.SortFunc(out, model.Port.Compare)
	for i := 1; i < len(out); i++ {
		if out[i].Tap == out[i-1].Tap {
			return nil, &api.Error{Text: fmt.Sprintf("two ports have the tap %s", out[i].Tap), Remedy: "send one for each tap"}
		}
	}
	return out, nil
}

// longestName is the longest name of an interface in bytes: IFNAMSIZ less the terminating zero.
const longestName = 15

func readPort(p *api.HostPort) (out model.Port, err error) {
	if !model.IsUUID(p.ID) {
		return out, fmt.Errorf("the ID %q is no UUID", model.Shorten(p.ID))
	}
	out.ID = strings.ToLower(p.ID)
	if out.Tap = p.Tap; p.Tap == "" || len(p.Tap) > longestName || model.Shorten(p.Tap) != p.Tap || strings.ContainsAny(p.Tap, "/ ") {
		return out, fmt.Errorf("the tap %q is no interface", model.Shorten(p.Tap))
	}
	if out.MAC, err = model.ParseMAC(p.MAC); err != nil {
		return out, err
	}
	if out.MAC.IsZero() {
		return out, fmt.Errorf("it has no MAC address")
	}
	out.SLA.Source = model.SourceOfPort(out.ID)
	for _, x := range []struct {
		from api.Rate
		to   *model.Rate
	}{{p.Guarantee, &out.SLA.Guarantee}, {p.Limit, &out.SLA.Limit}, {p.Receive, &out.SLA.Receive}} {
		if *x.to, err = readRate(x.from); err != nil {
			return out, err
		}
	}
	if out.SLA.IsZero() {
		return out, fmt.Errorf("it asks for nothing")
	}
	return out, nil
}
