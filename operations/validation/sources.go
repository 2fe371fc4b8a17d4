package validation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/charts"
	"github.com/harrier-ci/harrier/operations/dryrun"
	"github.com/harrier-ci/harrier/operations/files"
	"github.com/harrier-ci/harrier/operations/validation/gitops"
)

// The owners of values in a document that names no kind.

// parent is what is known of the chart that values are given for: one of ours, or one that has ours below it.
type parent struct {
	// chart is ours whose values are given, not those of a parent, as the command line says; empty if it doesn't.
	chart string
	// charts are ours by the names or aliases that they have below it.
	charts map[string]string
	// switches has, by the same names, the conditions and tags that decide whether they are installed.
	switches map[string]dependency
	// values are its own, under those of the file that is checked.
	values map[string]any
}

// dependency is a chart below another one, as the latter describes it.
type dependency struct {
	Name, Alias, Condition string
	Tags                   []string
}

// off reports whether values of the parent chart leave a dependency out. As for Helm, the first condition that the
// values have decides, or else the tags, of which a single true one suffices.
func (d dependency) off(values common.Values) bool {
	for path := range strings.SplitSeq(d.Condition, ",") {
		if value, err := values.PathValue(strings.TrimSpace(path)); err == nil {
			if on, ok := value.(bool); ok {
				return !on
			}
		}
	}
	tags, _ := values["tags"].(map[string]any)
	on := func(tag string) bool { return tags[tag] == true }
	isOff := func(tag string) bool { return tags[tag] == false }
	return slices.ContainsFunc(d.Tags, isOff) && !slices.ContainsFunc(d.Tags, on)
}

// maxParent is the size of the files of a parent chart that are read, far above what Helm can install.
const maxParent = 8 << 20

// parentOf reads the chart that a file of values lies in. There is none if the directory has no Chart.yaml with one of
// our charts among its dependencies.
func parentOf(file string) (parent, error) {
	directory := filepath.Dir(file)
	content, err := files.Read(filepath.Join(directory, "Chart.yaml"), maxParent)
	if errors.Is(err, fs.ErrNotExist) {
		return parent{}, nil
	}
	if err != nil {
		return parent{}, err
	}
	var chart struct {
		Dependencies []dependency `json:"dependencies"`
	}
	if err := yaml.Unmarshal(content, &chart); err != nil {
		return parent{}, fmt.Errorf("%s: %w", filepath.Join(directory, "Chart.yaml"), err)
	}
	found := parent{charts: map[string]string{}, switches: map[string]dependency{}}
	for _, dependency := range chart.Dependencies {
		if dependency.Name == charts.ScaleSet || dependency.Name == charts.Controller {
			key := cmp.Or(dependency.Alias, dependency.Name)
			found.charts[key], found.switches[key] = dependency.Name, dependency
		}
	}
	own := filepath.Join(directory, "values.yaml")
	if len(found.charts) == 0 || filepath.Base(file) == "values.yaml" {
		return found, nil
	}
	content, err = files.Read(own, maxParent)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return parent{}, err
	}
	if err := yaml.Unmarshal(content, &found.values); err != nil {
		return parent{}, fmt.Errorf("%s: %w", own, err)
	}
	return found, nil
}

// belowParent stands for values of a chart that has ours below it; "" for values of something else.
const belowParent = "parent"

// chartOf returns the chart that values are for, or belowParent; "" if they have nothing that only one of the charts
// has.
func (p parent) chartOf(values map[string]any) string {
	if p.chart != "" {
		return p.chart
	}
	has := func(one, other string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(values)),
			func(key string) bool { return dryrun.Knows(one, key) && !dryrun.Knows(other, key) })
	}
	found, off, _ := p.below(values, "")
	switch {
	case isSet(values):
		return charts.ScaleSet
	case len(found)+len(off)+len(p.charts) > 0:
		return belowParent
	case has(charts.ScaleSet, charts.Controller):
		return charts.ScaleSet
	case has(charts.Controller, charts.ScaleSet):
		return charts.Controller
	}
	return ""
}

// charts returns the chart of each document. A document that doesn't show its chart is for the chart of the document
// before it, or else of the first that shows one. If none does, all are for the scale set's chart if that knows any of
// their keys.
func (v *validated) charts() []string {
	of := make([]string, len(v.plain))
	known := ""
	for i := range v.plain {
		if of[i] = v.parent.chartOf(v.plain[i].fields); known == "" {
			known = of[i]
		}
	}
	for i := range of {
		if of[i] != "" {
			known = of[i]
			continue
		}
		ofSet := func(key string) bool { return dryrun.Knows(charts.ScaleSet, key) }
		if keys := slices.Collect(maps.Keys(v.plain[i].fields)); known == "" &&
			(len(keys) == 0 || slices.ContainsFunc(keys, ofSet)) {
			known = charts.ScaleSet
		}
		of[i] = known
	}
	return of
}

// isSet reports whether values have what only those of a scale set have.
func isSet(values map[string]any) bool {
	_, url := values["githubConfigUrl"]
	_, secret := values["githubConfigSecret"]
	return url || secret
}

// below returns the values for our charts among those of a chart that has them below it: under their names or aliases,
// or, if these aren't known, under any name if they have what only those of a scale set have. A chart may be below one
// that is below. off lists those that are disabled, and others the rest.
func (p parent) below(values map[string]any, path string) (found []*source, off, others []string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		inner, ok := values[key].(map[string]any)
		if !ok || key == "global" || key == "tags" || key == "resourceMeta" {
			// the latter has keys of that name in a scale set's values
			continue
		}
		chart, guessed := p.chartAt(key, inner)
		at := path + key
		switch {
		case chart != "" && (inner["enabled"] == false || (path == "" && p.switches[key].off(values))):
			off = append(off, at)
		case chart != "":
			found = append(found, &source{place: at, chart: chart, values: inner, guessed: guessed})
		case strings.Count(at, ".") < maxDepth:
			deeper, offThere, _ := p.below(inner, at+".")
			if found, off = append(found, deeper...), append(off, offThere...); len(deeper)+len(offThere) == 0 {
				others = append(others, at)
			}
		default:
			others = append(others, at)
		}
	}
	return found, off, others
}

// chartAt returns the one of our charts that the values below a key are for, empty if none. It is guessed if only the
// values say so.
func (p parent) chartAt(key string, values map[string]any) (chart string, guessed bool) {
	switch {
	case p.charts[key] != "":
		return p.charts[key], false
	case key == charts.ScaleSet || key == charts.Controller:
		return key, false
	case isSet(values) && len(p.charts) == 0: // else it is known which are ours
		return charts.ScaleSet, true
	}
	return "", false
}

// maxDepth limits the levels below a chart at which ours are looked for.
const maxDepth = 3

// setting is a value as a flag of Helm's gives it.
type setting struct {
	flag  *settingFlag
	given string
}

// settings are values of the command line. They win over those of files, in the order of settingFlags.
type settings []setting

// settingFlag is one of Helm's flags for values.
type settingFlag struct {
	name, usage string
	parse       func(text string, values map[string]any) error
}

// settingFlags are in the order in which Helm takes them, wherever they stand in the command line.
var settingFlags = []*settingFlag{
	{"set-json", "value as helm's flag of that name takes it: KEY=JSON, or an object in JSON; may be repeated",
		setJSON},
	{"set", "value as helm's flag of that name takes it: KEY=VALUE,KEY=VALUE; may be repeated", strvals.ParseInto},
	{"set-string", "the same, of which every value is a string", strvals.ParseIntoString},
	{"set-file", "value as helm's flag of that name takes it: KEY=FILE; may be repeated", func(
		text string, values map[string]any,
	) error {
		return strvals.ParseIntoFile(text, values, func(path []rune) (any, error) {
			content, err := files.Read(string(path), maxParent)
			return string(content), err
		})
	}},
	{"set-literal", "value as helm's flag of that name takes it: KEY=TEXT; may be repeated", strvals.ParseLiteralInto},
}

func setJSON(text string, values map[string]any) error {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return strvals.ParseJSON(text, values)
	}
	given := map[string]any{}
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		return err
	}
	maps.Copy(values, loader.MergeMaps(values, given))
	return nil
}

// applyTo sets them among values.
func (s settings) applyTo(values map[string]any) error {
	for _, flag := range settingFlags {
		for _, one := range s {
			if one.flag != flag {
				continue
			}
			if err := flag.parse(one.given, values); err != nil {
				if flag.name != "set-file" { // of which the error has a path only
					err = errors.New("its text is not as Helm takes it (not shown here, as it may be a credential); " +
						"a comma in a value is written \\,")
				}
				return fmt.Errorf("--%s: %w", flag.name, err)
			}
		}
	}
	return nil
}

// errNothingToSet says that values of the command line have none to belong to.
var errNothingToSet = errors.New("--set and the like go with values of a chart, and there are only objects: change " +
	"the values in these, or validate a file of values")

// overlay adds the values of the command line as a document that lies on all others.
func (v *validated) overlay(given settings) error {
	if len(given) == 0 {
		return nil
	}
	if len(v.plain) == 0 && v.checked+len(v.skipped) > 0 {
		return errNothingToSet
	}
	alone := map[string]any{}
	if err := given.applyTo(alone); err != nil {
		return err
	}
	v.plain = append(v.plain, plainDocument{place: "the command line", fields: alone, settings: given})
	return nil
}

// values checks the documents without a kind. As Helm does with several files, and with several documents in a file,
// those that are for the same chart are merged: what comes later wins.
func (v *validated) values() error {
	merged := map[string]*plainDocument{}
	of := v.charts()
	for i, document := range v.plain {
		chart := of[i]
		if former := merged[chart]; former != nil && chart != "" && document.settings != nil {
			if err := document.settings.applyTo(former.fields); err != nil {
				return err
			}
			continue
		} else if former != nil && chart != "" {
			former.fields = loader.MergeMaps(former.fields, document.fields)
			former.place += ", " + document.place
			continue
		}
		merged[chart] = &document
	}
	for _, chart := range slices.Sorted(maps.Keys(merged)) {
		document := merged[chart]
		if chart == belowParent {
			document.fields = loader.MergeMaps(v.parent.values, document.fields)
		}
		from := &source{
			place:   document.place,
			chart:   chart,
			values:  document.fields,
			release: dryrun.Release{Name: "release", Namespace: v.namespace},
		}
		if err := v.source(from); err != nil {
			return err
		}
	}
	return nil
}

// source checks values, or what those of another chart have for ours.
func (v *validated) source(from *source) (err error) {
	switch from.chart {
	case "":
		v.skipped = append(v.skipped, "values of another chart: "+strings.Join(slices.Sorted(maps.Keys(from.values)),
			", "))
	case belowParent:
		found, off, others := v.parent.below(from.values, "")
		for _, part := range found {
			part.place, part.release, part.more = from.place+", "+part.place, from.release, from.more
			if err := v.source(part); err != nil {
				return err
			}
		}
		if len(off) > 0 {
			said := "not checked, because it isn't enabled: " + strings.Join(off, ", ")
			v.notes, v.skipped = append(v.notes, from.place+": "+said), append(v.skipped, said)
		}
		if len(others) > 0 {
			v.notes = append(v.notes, from.place+": not checked, because it isn't known to be for our charts: "+
				strings.Join(others, ", "))
		}
	default:
		v.check(from.place, func(c *checks) { err = c.valuesOf(from) })
	}
	return err
}

// delivered checks the values of an installation, if it is one of our charts or of a chart that has them below it.
func (v *validated) delivered(kind string, given *gitops.Delivery) error {
	place := objectPlace(kind, given.Namespace, given.Name)
	if given.Unread != "" {
		v.skipped = append(v.skipped, kind)
		v.notes = append(v.notes, place+": not checked: "+given.Unread)
		return nil
	}
	given.Release.Name, given.Release.Namespace = cmp.Or(given.Release.Name, "release"),
		cmp.Or(given.Release.Namespace, v.namespace)
	from := &source{
		place:   place,
		chart:   chartNamed(given.Chart),
		values:  given.Values,
		release: given.Release,
		more:    strings.Join(given.More, ", "),
	}
	found, off, _ := v.parent.below(given.Values, "")
	switch {
	case given.Local && !isSet(given.Values) && len(found)+len(off) > 0:
		from.chart = belowParent
	case from.chart != "":
	case isSet(given.Values):
		from.chart = charts.ScaleSet
	case len(found) > 0:
		from.chart = belowParent
	default:
		v.skipped = append(v.skipped, kind+" of the chart "+cmp.Or(given.Chart, "that it refers to"))
		return nil
	}
	return v.source(from)
}

// chartNamed returns the one of our charts that has a name, if any. ARC's experimental ones are named like them.
func chartNamed(name string) string {
	for _, chart := range []string{charts.Controller, charts.ScaleSet} {
		if strings.Contains(name, chart) {
			return chart
		}
	}
	return ""
}
