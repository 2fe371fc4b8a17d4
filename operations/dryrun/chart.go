// Package dryrun finds the faults that the charts and the API server would find in values and objects, without a
// cluster. Helm's engine renders the charts that are part of the program, and objects are checked as a strict API
// server checks them. The doctor's command validate is built on it.
package dryrun

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/template"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/charts"
)

// Fault is one thing that is wrong with values or with an object.
type Fault struct {
	// Path leads to it, with dots and with indices in brackets. It is empty if the message has its place.
	Path string
	// Message is the chart's or the API server's text.
	Message string
	// Unknown: there is no field of this name at Path. A chart refuses it; the API server drops it.
	Unknown bool
	// Warning: neither the chart nor the API server refuses it. The chart leaves out an unknown field of this kind.
	Warning bool
}

// String returns path and message.
func (f Fault) String() string {
	if f.Path == "" {
		return f.Message
	}
	return f.Path + ": " + f.Message
}

// Release names the installation of the values.
type Release struct {
	Name, Namespace string
	// Cluster answers for the cluster; nil means one that has our kinds and one controller.
	Cluster *Cluster
}

// Cluster is what templates ask of one.
type Cluster struct {
	// APIVersions are those that the cluster has, of the groups that templates ask about.
	APIVersions []string
	// Lookup returns an object, or a list if no name is given; empty if there is none.
	Lookup func(apiVersion, kind, namespace, name string) (map[string]any, error)
}

// Rendered has the result of rendering a chart with values.
type Rendered struct {
	// Objects are all but CustomResourceDefinitions, which values don't change.
	Objects []map[string]any
	// Notes are sentences about values that are set but not used.
	Notes []string
}

// Each chart is read a single time: it has some 30 files.
var loaded = map[string]func() (*chartv2.Chart, error){
	charts.ScaleSet:   sync.OnceValues(func() (*chartv2.Chart, error) { return load(charts.ScaleSet, unusedValues) }),
	charts.Controller: sync.OnceValues(func() (*chartv2.Chart, error) { return load(charts.Controller, doubts) }),
}

// unusedValues is an additional template of the chart. Of what NOTES.txt says it renders the sentences about unused
// values, and the fields that the chart leaves out.
var unusedValues = &archive.BufferedFile{
	Name: "templates/without-effect.json", Data: []byte(`{"notes": {{ include "gha-runner-scale-set.without-effect" . }},
"misplaced": {{ include "gha-runner-scale-set.misplaced-fields" . }}}`),
}

// doubts does the same in the other chart, with what may be wrong with the image.
var doubts = &archive.BufferedFile{
	Name: unusedValues.Name, Data: []byte(`{"notes": {{ include "gha-runner-scale-set-controller.doubts" . }}}`),
}

// leftOut is the message about a field that belongs into the other securityContext, of the pod or of a container.
const leftOut = "this securityContext has no such field, only the other one, and Kubernetes has ignored it so far"

func load(name string, more *archive.BufferedFile) (*chartv2.Chart, error) {
	files, err := charts.Files(name)
	if err != nil {
		return nil, err
	}
	var content []*archive.BufferedFile
	err = fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		content = append(content, &archive.BufferedFile{Name: path, Data: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the chart %s: %w", name, err)
	}
	if more != nil {
		content = append(content, more)
	}
	return loader.LoadFiles(content)
}

// Render renders a chart with values as an installation would. If the chart refuses the values, Render returns the
// faults: all that the schema refuses, or else the first one that its templates refuse. It returns Helm's warnings in
// any case. It fails only if the chart itself is broken.
func Render(chart string, values map[string]any, release Release) (*Rendered, []Fault, error) {
	found, known := loaded[chart]
	if !known {
		return nil, nil, fmt.Errorf("there is no chart %s", chart)
	}
	loaded, err := found()
	if err != nil {
		return nil, nil, err
	}
	options := common.ReleaseOptions{Name: release.Name, Namespace: release.Namespace, Revision: 1, IsInstall: true}
	var all common.Values
	warnings := warningsOf(func() {
		all, err = util.ToRenderValuesWithSchemaValidation(loaded, values, options, capabilities(release.Cluster), true)
	})
	if err != nil {
		return nil, append(warnings, Fault{Message: err.Error()}), nil
	}
	merged, _ := all["Values"].(common.Values)
	if faults, err := checkSchema(chart, loaded.Schema, merged); err != nil || len(faults) > 0 {
		return nil, append(warnings, faults...), err
	}
	rendered, faults := execute(loaded, all, release.Cluster)
	return rendered, append(warnings, faults...), nil
}

// logging is held while the log, which the whole program shares, has another output.
var logging sync.Mutex

// warningsOf returns the lines that a function of Helm's writes to the log. There, nobody would know which values they
// are about.
func warningsOf(call func()) (warnings []Fault) {
	logging.Lock()
	defer logging.Unlock()
	output, flags, written := log.Writer(), log.Flags(), &bytes.Buffer{}
	log.SetOutput(written)
	log.SetFlags(0)
	defer func() {
		log.SetOutput(output)
		log.SetFlags(flags)
	}()
	call()
	for line := range strings.Lines(written.String()) {
		warnings = append(warnings, Fault{
			Message: "Helm: " + strings.TrimPrefix(strings.TrimSpace(line), "warning: "),
			Warning: true,
		})
	}
	return warnings
}

// capabilities are those of the cluster.
func capabilities(cluster *Cluster) *common.Capabilities {
	ours := common.DefaultCapabilities.Copy()
	if cluster == nil {
		cluster = &Cluster{APIVersions: []string{v1alpha1.GroupVersion.String()}}
	}
	ours.APIVersions = append(ours.APIVersions, cluster.APIVersions...)
	return ours
}

// execute runs the templates. The message with which a template ends the rendering is returned as it is: Helm would put
// it into a text of its own.
func execute(chart *chartv2.Chart, values common.Values, cluster *Cluster) (*Rendered, []Fault) {
	refusal, lookup := "", OneController
	if cluster != nil {
		lookup = cluster.Lookup
	}
	functions := template.FuncMap{
		"fail": func(message string) (string, error) {
			refusal = message
			return "", errors.New(message)
		},
		"lookup": lookup,
	}
	texts, err := engine.Engine{CustomTemplateFuncs: functions}.Render(chart, values)
	if refusal != "" {
		return nil, []Fault{{Message: refusal}}
	}
	if err != nil { // a value of a type that no template expects
		return nil, []Fault{{Message: err.Error()}}
	}
	rendered := &Rendered{}
	var faults []Fault
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		switch {
		case strings.HasSuffix(file, unusedValues.Name):
			var said struct {
				Notes     []string
				Misplaced []struct{ Path string }
			}
			err = yaml.Unmarshal([]byte(texts[file]), &said)
			rendered.Notes = said.Notes
			for _, field := range said.Misplaced {
				faults = append(faults, Fault{Path: field.Path, Message: leftOut, Unknown: true, Warning: true})
			}
		case !strings.HasSuffix(file, ".txt") && !strings.Contains(file, "/crds/"):
			err = rendered.read(texts[file])
		}
		if err != nil { // Helm would say so, too
			return nil, []Fault{{Message: fmt.Sprintf("%s renders what is no YAML: %v", file, err)}}
		}
	}
	return rendered, faults
}

func (r *Rendered) read(text string) error {
	for _, document := range documents(text) {
		var object map[string]any
		if err := yaml.Unmarshal(document, &object); err != nil {
			return err
		}
		if object != nil {
			r.Objects = append(r.Objects, object)
		}
	}
	return nil
}

func documents(text string) (parts [][]byte) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := reader.Read()
		if err != nil { // only the end: it reads from memory
			return parts
		}
		parts = append(parts, document)
	}
}

// OneController answers templates that look into the cluster: there is one controller, and nothing else.
func OneController(_, kind, _, _ string) (map[string]any, error) {
	if kind != "Deployment" {
		return map[string]any{}, nil
	}
	labels := map[string]any{
		"app.kubernetes.io/part-of":                               "gha-rs-controller",
		"actions.github.com/controller-service-account-name":      "controller",
		"actions.github.com/controller-service-account-namespace": "controller",
	}
	return map[string]any{"items": []any{map[string]any{"metadata": map[string]any{"labels": labels}}}}, nil
}
