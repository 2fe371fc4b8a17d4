// Package charts has the charts, for the programs that render them and for what programs and charts must agree on.
package charts

import (
	"embed"
	"io/fs"
)

// The names of the charts.
const (
	ScaleSet   = "gha-runner-scale-set"
	Controller = "gha-runner-scale-set-controller"
)

// all: takes the templates whose names begin with an underscore, too.
//
//go:embed all:gha-runner-scale-set all:gha-runner-scale-set-controller
var files embed.FS

// Files returns the files of a chart. It takes the chart's name, and fails if there is none of that name.
func Files(chart string) (fs.FS, error) {
	if _, err := fs.Stat(files, chart); err != nil {
		return nil, err
	}
	return fs.Sub(files, chart)
}
