package backend

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"sluice/internal/base/input"
	"sluice/internal/model"
)

// Limits of the file: one override takes about 300 bytes.
const (
	maxOverrides = 10_000
	maxFile      = 8 << 20
)

// file is the format of the file.
type file struct {
	Version   int              `json:"version"`
	Overrides []model.Override `json:"overrides"`
}

const fileVersion = 1

// decode parses the file and rejects what encode cannot have written.
func decode(text []byte) ([]model.Override, error) {
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, err
	}
	if f.Version != fileVersion {
		return nil, fmt.Errorf("its version is %d, and this program reads version %d", f.Version, fileVersion)
	}
	if len(f.Overrides) > maxOverrides {
		return nil, fmt.Errorf("it has %d overrides, more than the limit of %d", len(f.Overrides), maxOverrides)
	}
	for i := range f.Overrides {
		o := &f.Overrides[i]
		switch o.Kind {
		case model.OverridePin, model.OverrideRelease, model.OverrideSLA:
			if o.VM == "" && o.VMName == "" {
				return nil, fmt.Errorf("override %d, a %s, names no VM", i+1, o.Kind)
			}
		case model.OverrideDrain:
		default:
			return nil, fmt.Errorf("override %d is of the unknown kind %q", i+1, o.Kind)
		}
	}
	return f.Overrides, nil
}

func encode(list []model.Override) ([]byte, error) {
	if len(list) > maxOverrides {
		return nil, fmt.Errorf("there are already %d overrides; undo some with `sluice unpin`", maxOverrides)
	}
	text, err := json.MarshalIndent(file{fileVersion, list}, "", "  ")
	return append(text, '\n'), err
}

// readFile reads the overrides of an earlier run; a missing file means none.
func readFile(path string) ([]model.Override, error) {
	text, err := input.Read(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []model.Override
	if err == nil {
		list, err = decode(text)
	}
	if err != nil {
		return nil, fmt.Errorf("overrides (`sluice pin`, `release`, `drain`, `sla set`): %s: %w; "+
			"correct it, or move it away to start without any", path, err)
	}
	return list, nil
}
