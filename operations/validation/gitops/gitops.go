// Package gitops reads which chart installations objects of Flux, Argo CD and k3s ask for, and with which values. It is
// pure, and knows nothing of our charts.
package gitops

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/operations/dryrun"
)

// Delivery is one installation of a chart, as an object asks for it.
type Delivery struct {
	// Namespace and Name are the object's.
	Namespace, Name string
	// Chart is the last part of the chart's name, path or address.
	Chart string
	// Local: the chart lies in a directory or behind a reference, where anybody may have given it any name.
	Local   bool
	Release dryrun.Release
	Values  map[string]any
	// More has other sources of values.
	More []string
	// Unread is the reason why there are no values; "" if there are.
	Unread string
}

// Readers read the installations that objects of these kinds ask for. They fail if the object can't be decoded.
var Readers = map[string]func(document []byte) ([]Delivery, error){
	"HelmRelease": helmRelease, "HelmChart": helmChart, "Application": application, "ApplicationSet": applicationSet,
}

type objectName struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

func helmRelease(document []byte) ([]Delivery, error) {
	var object struct {
		Metadata objectName `json:"metadata"`
		Spec     struct {
			Chart struct {
				Spec struct {
					Chart string `json:"chart"`
				} `json:"spec"`
			} `json:"chart"`
			ChartRef        objectName      `json:"chartRef"`
			ReleaseName     string          `json:"releaseName"`
			TargetNamespace string          `json:"targetNamespace"`
			Values          json.RawMessage `json:"values"`
			ValuesFrom      []any           `json:"valuesFrom"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(document, &object); err != nil {
		return nil, err
	}
	spec, meta := &object.Spec, &object.Metadata
	found := Delivery{
		Namespace: meta.Namespace,
		Name:      meta.Name,
		Chart:     path.Base(cmp.Or(spec.Chart.Spec.Chart, spec.ChartRef.Name)),
	}
	found.Local = spec.Chart.Spec.Chart == "" || strings.Contains(spec.Chart.Spec.Chart, "/")
	found.Release = dryrun.Release{
		Name:      cmp.Or(spec.ReleaseName, withPrefix(spec.TargetNamespace, meta.Name)),
		Namespace: cmp.Or(spec.TargetNamespace, meta.Namespace),
	}
	if len(spec.ValuesFrom) > 0 {
		found.More = append(found.More, "spec.valuesFrom")
	}
	if strings.Contains(string(document), "${") {
		found.More = append(found.More, "what Flux puts in the place of ${...}")
	}
	err := yaml.Unmarshal(spec.Values, &found.Values)
	return []Delivery{found}, err
}

// withPrefix names a release as Flux does.
func withPrefix(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "-" + name
}

func helmChart(document []byte) ([]Delivery, error) {
	var object struct {
		Metadata objectName `json:"metadata"`
		Spec     struct {
			Chart           string         `json:"chart"`
			TargetNamespace string         `json:"targetNamespace"`
			ValuesContent   string         `json:"valuesContent"`
			ValuesSecrets   []any          `json:"valuesSecrets"`
			Set             map[string]any `json:"set"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(document, &object); err != nil {
		return nil, err
	}
	found := Delivery{
		Namespace: object.Metadata.Namespace,
		Name:      object.Metadata.Name,
		Chart:     path.Base(object.Spec.Chart),
	}
	found.Release = dryrun.Release{Name: found.Name, Namespace: cmp.Or(object.Spec.TargetNamespace, found.Namespace)}
	if len(object.Spec.Set)+len(object.Spec.ValuesSecrets) > 0 {
		found.More = []string{"spec.set or spec.valuesSecrets"}
	}
	err := yaml.Unmarshal([]byte(object.Spec.ValuesContent), &found.Values)
	return []Delivery{found}, err
}

// applicationSpec is the part of an Application that names what it installs.
type applicationSpec struct {
	Source      applicationSource   `json:"source"`
	Sources     []applicationSource `json:"sources"`
	Destination objectName          `json:"destination"`
}

type applicationSource struct {
	RepoURL string `json:"repoURL"`
	Chart   string `json:"chart"`
	Path    string `json:"path"`
	Helm    struct {
		ReleaseName    string          `json:"releaseName"`
		Values         string          `json:"values"`
		ValuesObject   json.RawMessage `json:"valuesObject"`
		ValueFiles     []any           `json:"valueFiles"`
		FileParameters []any           `json:"fileParameters"`
		Parameters     []struct {
			Name        string `json:"name"`
			Value       string `json:"value"`
			ForceString bool   `json:"forceString"`
		} `json:"parameters"`
	} `json:"helm"`
}

func application(document []byte) ([]Delivery, error) {
	var object struct {
		Metadata objectName      `json:"metadata"`
		Spec     applicationSpec `json:"spec"`
	}
	if err := yaml.Unmarshal(document, &object); err != nil {
		return nil, err
	}
	return object.Spec.deliveries(object.Metadata)
}

func applicationSet(document []byte) ([]Delivery, error) {
	var object struct {
		Metadata objectName `json:"metadata"`
		Spec     struct {
			Template struct {
				Spec applicationSpec `json:"spec"`
			} `json:"template"`
			TemplatePatch string `json:"templatePatch"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(document, &object); err != nil {
		return nil, err
	}
	template := &object.Spec.Template.Spec
	for _, name := range []*string{&template.Destination.Namespace, &object.Metadata.Name} {
		if strings.Contains(*name, "{{") { // filled in for each Application
			*name = ""
		}
	}
	found, err := template.deliveries(object.Metadata)
	content, _ := json.Marshal(template) //nolint:errchkjson // it was read from JSON
	switch placeholders := strings.Contains(string(content), "{{"); {
	case err != nil && placeholders:
		return []Delivery{{
			Namespace: object.Metadata.Namespace,
			Name:      object.Metadata.Name,
			Unread:    "the values are YAML only when Argo CD has filled in {{...}}",
		}}, nil
	case err != nil:
		return nil, err
	case placeholders || object.Spec.TemplatePatch != "":
		for i := range found {
			found[i].More = append(found[i].More, "what the generators fill in, and spec.templatePatch")
		}
	}
	return found, nil
}

func (s *applicationSpec) deliveries(meta objectName) (found []Delivery, err error) {
	for _, source := range append(s.Sources, s.Source) {
		named := cmp.Or(source.Chart, source.Path, source.RepoURL)
		if named == "" {
			continue
		}
		one := Delivery{Namespace: meta.Namespace, Name: meta.Name, Chart: path.Base(named)}
		one.Release = dryrun.Release{Name: cmp.Or(source.Helm.ReleaseName, meta.Name),
			Namespace: s.Destination.Namespace}
		if len(source.Helm.ValueFiles)+len(source.Helm.FileParameters) > 0 {
			one.More = append(one.More, "helm.valueFiles and helm.fileParameters")
		}
		if one.Local = source.Chart == "" && source.Path != ""; one.Local {
			one.More = append(one.More, "the files in "+source.Path)
		}
		if one.Values, err = source.values(); err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

// bareComma matches a comma that has no backslash before it, with what it has.
var bareComma = regexp.MustCompile(`(^|[^\\]),`)

// values merges the values as Argo CD does: valuesObject stands for values if it is given, and parameters win.
func (s *applicationSource) values() (map[string]any, error) {
	text := []byte(s.Helm.Values)
	if len(s.Helm.ValuesObject) > 0 {
		text = s.Helm.ValuesObject
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("helm.values: %w", err)
	}
	set := map[string]any{}
	for _, parameter := range s.Helm.Parameters {
		into := strvals.ParseInto
		if parameter.ForceString {
			into = strvals.ParseIntoString
		}
		value := parameter.Value
		if !strings.HasPrefix(value, "{") || !strings.HasSuffix(value, "}") { // a list, for Helm
			value = bareComma.ReplaceAllString(value, `$1\,`)
		}
		if err := into(parameter.Name+"="+value, set); err != nil {
			return nil, fmt.Errorf("helm.parameters: %w", err)
		}
	}
	return loader.MergeMaps(values, set), nil
}
