package backend

import (
	"context"
	"fmt"

	"sluice/api/v1"
	"sluice/internal/model"
)

// SetClaims implements server.Backend. claims are sorted.
func (b *Backend) SetClaims(ctx context.Context, claims []model.Claim) (res api.Result, changed bool, err error) {
	w := b.overrides
	w.changing.Lock()
	defer w.changing.Unlock()
	changed, err = tell(ctx, b, &w.claims, w.Claims(), claims)
	switch {
	case err != nil:
	case changed:
		res.Text = fmt.Sprintf("%d claims; `sluice capacity` shows which of them are kept", len(claims))
	default:
		res.Text = fmt.Sprintf("still %d claims", len(claims))
	}
	return res, changed, err
}

// Claims returns the claims that the host was told of last, sorted.
func (w *Overrides) Claims() []model.Claim { return w.claims.get(w) }
