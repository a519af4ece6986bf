// Command sbom prints a software bill of materials in CycloneDX's JSON: Go's programs, and the modules that
// their build information says they are made of.
//
//	sbom NAME VERSION THIRD_PARTY.json|- PROGRAM...
//
// THIRD_PARTY.json is a list of CycloneDX components that no build information knows.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "usage: sbom NAME VERSION THIRD_PARTY.json|- PROGRAM...")
		os.Exit(2)
	}
	if err := run(os.Stdout, os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, name, version, others string, programs []string) error {
	at, err := sourceDate()
	if err != nil {
		return err
	}
	whole := cdx.Component{
		BOMRef: name, Type: cdx.ComponentTypeApplication, Name: name, Version: version,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	b := cdx.NewBOM()
	b.Metadata = &cdx.Metadata{Timestamp: at, Component: &whole}
	parts := map[string]cdx.Component{}
	depends := map[string][]string{}
	for _, path := range programs {
		if err := program(path, version, name, parts, depends); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := third(others, name, parts, depends); err != nil {
		return fmt.Errorf("%s: %w", others, err)
	}
	b.Components, b.Dependencies = sorted(parts), edges(depends)
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(b)
}

// sourceDate is when the source was written, if the build tells: no build is to differ from another.
func sourceDate() (string, error) {
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		return "", nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return "", fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC().Format(time.RFC3339), nil
}

// program adds a program with its hash, its modules, and Go's own library.
func program(path, version, whole string, parts map[string]cdx.Component, depends map[string][]string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	ref := "program:" + filepath.Base(path)
	parts[ref] = cdx.Component{
		BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: filepath.Base(path), Version: version,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}
	depends[whole] = append(depends[whole], ref)
	library := debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range append([]*debug.Module{&library}, info.Deps...) {
		if m.Replace != nil {
			m = m.Replace
		}
		url := "pkg:golang/" + m.Path + "@" + m.Version
		parts[url] = cdx.Component{
			BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url,
			Properties: properties(m.Sum),
		}
		depends[ref] = append(depends[ref], url)
	}
	return nil
}

// properties are what go.sum has of a module: a hash of its files' hashes, so not one of CycloneDX's.
func properties(sum string) *[]cdx.Property {
	if sum == "" {
		return nil
	}
	return &[]cdx.Property{{Name: "go:sum", Value: sum}}
}

func third(path, whole string, parts map[string]cdx.Component, depends map[string][]string) error {
	if path == "-" {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var list []cdx.Component
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for _, c := range list {
		c.BOMRef = c.PackageURL
		parts[c.BOMRef] = c
		depends[whole] = append(depends[whole], c.BOMRef)
	}
	return nil
}

func sorted(parts map[string]cdx.Component) *[]cdx.Component {
	list := []cdx.Component{}
	for _, c := range parts {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	return &list
}

func edges(depends map[string][]string) *[]cdx.Dependency {
	list := []cdx.Dependency{}
	for ref, on := range depends {
		slices.Sort(on)
		on = slices.Compact(on)
		list = append(list, cdx.Dependency{Ref: ref, Dependencies: &on})
	}
	slices.SortFunc(list, func(a, b cdx.Dependency) int { return strings.Compare(a.Ref, b.Ref) })
	return &list
}
