// Package config reads sluice.yaml and the fragments in conf.d beside it into a
// validated Config. Every complaint names file, line and column and says what to
// write instead; all of them come at once, so that a person repairs a file in one
// round. Nothing here looks at the host: what depends on it (are these PFs there?)
// is asked later, through CheckWorld.
package config
