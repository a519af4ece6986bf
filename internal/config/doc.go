// Package config reads sluice.yaml and the fragments in conf.d beside it into a validated Config. Every error names file,
// line and column and says what to write instead; all errors are reported at once, so that the user can fix a file in one
// pass. Load does not look at the host: CheckWorld later checks what depends on it, such as whether the PFs exist.
package config
