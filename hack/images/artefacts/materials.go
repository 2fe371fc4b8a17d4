package artefacts

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// Product is released.
type Product struct {
	// Name is that of its repository, such as github.com/harrier-ci/harrier.
	Name, Version string
	// Commit is the full hash.
	Commit string
}

// Materials returns a bill of materials of programs in CycloneDX's format: every Go module that the compiler has put
// into at least one of them, by what it wrote into each program itself. programs are by the name under which people
// know them. It fails for a program that Go hasn't compiled.
func Materials(product Product, programs map[string][]byte) ([]byte, error) {
	modules := map[string]*debug.Module{}
	for name, content := range programs {
		info, err := buildinfo.Read(bytes.NewReader(content))
		if err != nil {
			return nil, fmt.Errorf("read what %s is made of: %w", name, err)
		}
		for _, module := range append(info.Deps, &debug.Module{Path: "stdlib", Version: info.GoVersion}) {
			module = cmp.Or(module.Replace, module)
			modules[purl(module)] = module
		}
	}
	components := make([]cyclonedx.Component, 0, len(modules))
	for identifier, module := range modules {
		component := cyclonedx.Component{
			BOMRef:     identifier,
			Type:       cyclonedx.ComponentTypeLibrary,
			Name:       module.Path,
			Version:    module.Version,
			PackageURL: identifier,
		}
		if module.Sum != "" {
			component.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: module.Sum}}
		}
		components = append(components, component)
	}
	slices.SortFunc(components, func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })

	bill := cyclonedx.NewBOM()
	itself := "pkg:golang/" + product.Name + "@v" + product.Version
	bill.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: itself, Type: cyclonedx.ComponentTypeApplication, Name: product.Name, Version: product.Version,
		PackageURL: itself,
		Properties: &[]cyclonedx.Property{{Name: "vcs:commit", Value: product.Commit}},
	}}
	bill.Components = &components
	var text bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bill); err != nil {
		return nil, fmt.Errorf("write the bill of materials: %w", err)
	}
	return text.Bytes(), nil
}

// purl returns the package URL of a module: Go's are in lower case, and "+" is escaped. The standard library has one by
// convention.
func purl(module *debug.Module) string {
	version := module.Version
	if module.Path == "stdlib" {
		version = version[len("go"):]
	}
	return "pkg:golang/" + strings.ToLower(module.Path) + "@" + strings.ReplaceAll(version, "+", "%2B")
}
