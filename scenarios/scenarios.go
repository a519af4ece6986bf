// Package scenarios holds the scenario files that come with Sluice, so that `sluice reproduce` has them wherever it is installed.
package scenarios

import "embed"

// Files are the scenario files, *.yaml.
//
//go:embed *.yaml
var Files embed.FS
