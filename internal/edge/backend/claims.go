package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"sluice/api/v1"
	"sluice/internal/base/input"
	"sluice/internal/base/statefile"
	"sluice/internal/model"
)

// claimsName is the file of the claims, beside that of the overrides.
const claimsName = "claims.json"

// claimsFile is its format.
type claimsFile struct {
	Version int           `json:"version"`
	Claims  []model.Claim `json:"claims"`
}

// SetClaims implements server.Backend. claims are sorted.
func (b *Backend) SetClaims(ctx context.Context, claims []model.Claim) (res api.Result, changed bool, err error) {
	w := b.overrides
	w.changing.Lock()
	defer w.changing.Unlock()
	before := w.Claims()
	if slices.Equal(before, claims) {
		return api.Result{Text: fmt.Sprintf("still %d claims", len(claims))}, false, nil
	}
	if err := w.keepClaims(claims); err != nil {
		return res, false, err
	}
	var failed error
	err = b.call(ctx, func(time.Time) { failed = b.core.SetRules(w.Over(b.rules())) })
	if err = errors.Join(err, failed); err != nil {
		err = errors.Join(err, w.keepClaims(before))
		return res, false, &api.Error{Text: fmt.Sprintf("nothing was changed: %v", err), Remedy: "see the daemon's log: journalctl -u sluice"}
	}
	return api.Result{Text: fmt.Sprintf("%d claims; `sluice capacity` shows which of them are kept", len(claims))}, true, nil
}

// Claims returns the claims that the host was told of last, sorted.
func (w *Overrides) Claims() []model.Claim {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.claims)
}

// keepClaims stores claims on disk first.
func (w *Overrides) keepClaims(claims []model.Claim) error {
	if w.path != "" {
		text, err := json.MarshalIndent(claimsFile{fileVersion, claims}, "", "  ")
		if err == nil {
			err = statefile.Replace(filepath.Join(filepath.Dir(w.path), claimsName), append(text, '\n'))
		}
		if err != nil {
			return &api.Error{Text: fmt.Sprintf("the claims cannot be saved: %v", err), Remedy: statefile.Remedy(filepath.Dir(w.path), err)}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims = slices.Clone(claims)
	return nil
}

// readClaims reads the claims of an earlier run; a missing file means none.
func readClaims(path string) ([]model.Claim, error) {
	text, err := input.Read(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var f claimsFile
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err == nil && f.Version != fileVersion {
		err = fmt.Errorf("its version is %d, and this program reads version %d", f.Version, fileVersion)
	}
	if err == nil && len(f.Claims) > api.MostClaims {
		err = fmt.Errorf("it has %d claims, more than the limit of %d", len(f.Claims), api.MostClaims)
	}
	if err != nil {
		return nil, fmt.Errorf("claims of the fleet: %s: %w; move it away: `sluice fleet publish` tells the daemon again", path, err)
	}
	slices.SortFunc(f.Claims, model.Claim.Compare)
	return slices.CompactFunc(f.Claims, func(a, b model.Claim) bool { return a.Compare(b) == 0 }), nil
}
