package server

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"sluice/api/v1"
	"sluice/internal/model"
)

// maxListBody bounds the body of a PUT: each claim takes about 200 bytes, a port 300.
const maxListBody = 1 << 20

// putClaims replaces the claims that the host keeps room for.
func (h *handler) putClaims(w http.ResponseWriter, r *http.Request) {
	who := peerOf(r.Context())
	if !h.authorize(w, who, "claims", "say what the fleet has claimed", RoleClaims) {
		return
	}
	var body api.SetClaims
	if err := decode(r.Body, &body); err != nil {
		writeError(w, statusOf(err, http.StatusBadRequest), badBody(err, "see docs/api.md for its fields"))
		return
	}
	claims, err := readClaims(body.Claims)
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	res, changed, err := h.opts.Backend.SetClaims(r.Context(), claims)
	if err != nil {
		h.opts.Logger.Warn("the fleet's claims cannot be set", "by", who.String(), "error", err)
		writeError(w, statusOf(err, http.StatusInternalServerError), err)
		return
	}
	if changed {
		h.opts.Logger.Info("the fleet's claims have changed", "by", who.String(), "claims", len(claims))
	}
	writeJSON(w, http.StatusOK, res)
}

// readClaims checks claims, and sorts them.
func readClaims(list []api.HostClaim) ([]model.Claim, error) {
	if len(list) > api.MostClaims {
		return nil, &api.Error{Text: fmt.Sprintf("%d claims are too many", len(list)), Remedy: fmt.Sprintf("send at most %d", api.MostClaims)}
	}
	out := make([]model.Claim, 0, len(list))
	for i := range list {
		c, err := readClaim(&list[i])
		if err != nil {
			return nil, &api.Error{Text: fmt.Sprintf("claim %d: %v", i+1, err), Remedy: "see docs/api.md for its fields"}
		}
		out = append(out, c)
	}
	slices.SortFunc(out, model.Claim.Compare)
	for i := 1; i < len(out); i++ {
		if out[i].Compare(out[i-1]) == 0 {
			return nil, &api.Error{
				Text: fmt.Sprintf("two claims are for %s of %s", out[i].MAC, out[i].VM), Remedy: "send one for each NIC, without MAC for each PF",
			}
		}
	}
	return out, nil
}

// mostRate is more than any link carries, and exact in JSON.
const mostRate = 1e15

func readClaim(c *api.HostClaim) (out model.Claim, err error) {
	if !model.IsUUID(c.ID) {
		return out, fmt.Errorf("the VM's UUID %q is none", model.Shorten(c.ID))
	}
	out.VM = model.VMID(strings.ToLower(c.ID))
	if c.MAC != "" {
		if out.MAC, err = model.ParseMAC(c.MAC); err != nil {
			return out, err
		}
		if out.MAC.IsZero() {
			return out, fmt.Errorf("no NIC has the MAC address %s", c.MAC)
		}
	}
	packets := c.MAC == "" && c.Rate.Bits == 0
	if out.PF = model.PCIAddress(strings.ToLower(c.PF)); len(c.PF) > 32 || model.Shorten(c.PF) != c.PF || c.PF == "" && !packets {
		return out, fmt.Errorf("the PF's PCI address %q is none", model.Shorten(c.PF))
	}
	if out.Guarantee, err = readRate(c.Rate); err != nil {
		return out, err
	}
	if out.Guarantee.IsZero() {
		return out, fmt.Errorf("it guarantees nothing")
	}
	return out, nil
}

func readRate(r api.Rate) (model.Rate, error) {
	for _, x := range []float64{r.Bits, r.Packets} {
		if !(x >= 0 && x <= mostRate) {
			return model.Rate{}, fmt.Errorf("the rate of %g is none", x)
		}
	}
	return model.Rate{Bits: uint64(math.Ceil(r.Bits)), Packets: uint64(math.Ceil(r.Packets))}, nil
}
