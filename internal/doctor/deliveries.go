package doctor

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

	"github.com/harrier-ci/harrier/charts"
	"github.com/harrier-ci/harrier/internal/dryrun"
)

// delivery is one installation of a chart, as an object of Flux, Argo CD or k3s asks for it.
type delivery struct {
	namespace, name string
	// chart is the last part of the chart's name, path or address.
	chart string
	// local: it lies in a directory or behind a reference, so that it may be anybody's who has given it the name of ours.
	local   bool
	release dryrun.Release
	values  map[string]any
	// more are other places that values come from.
	more []string
	// unread says why there are no values; "" if there are.
	unread string
}

// deliveries reads the installations that objects of these kinds ask for.
var deliveries = map[string]func(document []byte) ([]delivery, error){
	"HelmRelease": helmRelease, "HelmChart": helmChart, "Application": application, "ApplicationSet": applicationSet,
}

// delivered checks the values of an installation, if it is one of our charts or of a chart that has them below it.
func (v *validation) delivered(kind string, given *delivery) error {
	place := objectPlace(kind, given.namespace, given.name)
	if given.unread != "" {
		v.skipped = append(v.skipped, kind)
		v.notes = append(v.notes, place+": not checked: "+given.unread)
		return nil
	}
	given.release.Name, given.release.Namespace = cmp.Or(given.release.Name, "release"), cmp.Or(given.release.Namespace, v.namespace)
	from := &source{place: place, chart: chartNamed(given.chart), values: given.values, release: given.release, more: strings.Join(given.more, ", ")}
	found, off, _ := v.parent.below(given.values, "")
	switch {
	case given.local && !isSet(given.values) && len(found)+len(off) > 0:
		from.chart = belowParent
	case from.chart != "":
	case isSet(given.values):
		from.chart = charts.ScaleSet
	case len(found) > 0:
		from.chart = belowParent
	default:
		v.skipped = append(v.skipped, kind+" of the chart "+cmp.Or(given.chart, "that it refers to"))
		return nil
	}
	return v.source(from)
}

// chartNamed returns which of our charts has a name, if any. ARC's experimental ones are named like them.
func chartNamed(name string) string {
	for _, chart := range []string{charts.Controller, charts.ScaleSet} {
		if strings.Contains(name, chart) {
			return chart
		}
	}
	return ""
}

type objectName struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

func helmRelease(document []byte) ([]delivery, error) {
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
	found := delivery{namespace: meta.Namespace, name: meta.Name, chart: path.Base(cmp.Or(spec.Chart.Spec.Chart, spec.ChartRef.Name))}
	found.local = spec.Chart.Spec.Chart == "" || strings.Contains(spec.Chart.Spec.Chart, "/")
	found.release = dryrun.Release{Name: cmp.Or(spec.ReleaseName, withPrefix(spec.TargetNamespace, meta.Name)), Namespace: cmp.Or(spec.TargetNamespace, meta.Namespace)}
	if len(spec.ValuesFrom) > 0 {
		found.more = append(found.more, "spec.valuesFrom")
	}
	if strings.Contains(string(document), "${") {
		found.more = append(found.more, "what Flux puts in the place of ${...}")
	}
	err := yaml.Unmarshal(spec.Values, &found.values)
	return []delivery{found}, err
}

// withPrefix is how Flux names a release.
func withPrefix(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "-" + name
}

func helmChart(document []byte) ([]delivery, error) {
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
	found := delivery{namespace: object.Metadata.Namespace, name: object.Metadata.Name, chart: path.Base(object.Spec.Chart)}
	found.release = dryrun.Release{Name: found.name, Namespace: cmp.Or(object.Spec.TargetNamespace, found.namespace)}
	if len(object.Spec.Set)+len(object.Spec.ValuesSecrets) > 0 {
		found.more = []string{"spec.set or spec.valuesSecrets"}
	}
	err := yaml.Unmarshal([]byte(object.Spec.ValuesContent), &found.values)
	return []delivery{found}, err
}

// applicationSpec is the part of an Application that says what is installed.
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

func application(document []byte) ([]delivery, error) {
	var object struct {
		Metadata objectName      `json:"metadata"`
		Spec     applicationSpec `json:"spec"`
	}
	if err := yaml.Unmarshal(document, &object); err != nil {
		return nil, err
	}
	return object.Spec.deliveries(object.Metadata)
}

func applicationSet(document []byte) ([]delivery, error) {
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
		return []delivery{{namespace: object.Metadata.Namespace, name: object.Metadata.Name, unread: "the values are YAML only when Argo CD has filled in {{...}}"}}, nil
	case err != nil:
		return nil, err
	case placeholders || object.Spec.TemplatePatch != "":
		for i := range found {
			found[i].more = append(found[i].more, "what the generators fill in, and spec.templatePatch")
		}
	}
	return found, nil
}

func (s *applicationSpec) deliveries(meta objectName) (found []delivery, err error) {
	for _, source := range append(s.Sources, s.Source) {
		named := cmp.Or(source.Chart, source.Path, source.RepoURL)
		if named == "" {
			continue
		}
		one := delivery{namespace: meta.Namespace, name: meta.Name, chart: path.Base(named)}
		one.release = dryrun.Release{Name: cmp.Or(source.Helm.ReleaseName, meta.Name), Namespace: s.Destination.Namespace}
		if len(source.Helm.ValueFiles)+len(source.Helm.FileParameters) > 0 {
			one.more = append(one.more, "helm.valueFiles and helm.fileParameters")
		}
		if one.local = source.Chart == "" && source.Path != ""; one.local {
			one.more = append(one.more, "the files in "+source.Path)
		}
		if one.values, err = source.values(); err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

// bareComma matches a comma that has no backslash before it, with what it has.
var bareComma = regexp.MustCompile(`(^|[^\\]),`)

// values are merged as Argo CD does: valuesObject stands for values if it is given, and parameters win.
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
