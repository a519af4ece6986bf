// What lists the parts of the programs, in a module of its own: nothing else of the project needs CycloneDX.
module sluice/packaging/sbom

go 1.25.0

toolchain go1.26.8

require github.com/CycloneDX/cyclonedx-go v0.12.0
