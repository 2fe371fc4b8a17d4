package validation

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/harrier-ci/harrier/charts"
	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/dryrun"
	"github.com/harrier-ci/harrier/operations/files"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/validation/tenants"
)

// ErrNothingChecked says that the input has neither values nor a scale set.
var ErrNothingChecked = errors.New("nothing was checked")

// Options select the input and the form of the report, and have the known facts about the controller that will serve
// the sets.
type Options struct {
	// paths are files with values or manifests, - for standard input; set lies on all of them.
	paths []string
	set   settings
	// chart is the one that all values are for, empty if they show it themselves.
	chart string
	// namespace is that of values, and of objects that name none. format is that of the report.
	namespace, format string
	// controllerValues is a file with values of the controller's chart, empty if these are not known.
	controllerValues string
	// storageClasses is a file with the cluster's StorageClasses, empty if these are not known.
	storageClasses string
	// policy is the name of the one for listener pods, and listeners is that policy with its images.
	policy    string
	listeners listenertemplate.Policy
	// allowed has the controller's flags.allowedGitHubURLs.
	allowed []string
}

// NewOptions returns the options that flags set when they are parsed.
func NewOptions(flags *flag.FlagSet) *Options {
	o := &Options{}
	flags.Func("f", "file with values or manifests, -: standard input; may be repeated: values are merged as Helm "+
		"merges them", func(path string) error {
		o.paths = append(o.paths, path)
		return nil
	})
	for _, flag := range settingFlags {
		flags.Func(flag.name, flag.usage, func(text string) error {
			o.set = append(o.set, setting{flag, text})
			return nil
		})
	}
	flags.StringVar(&o.chart, "chart", "", "chart that the values are for, "+charts.ScaleSet+" or "+charts.Controller+
		"; empty: the one whose values they have, or that of the Chart.yaml beside the first file")
	flags.StringVar(&o.namespace, "n", "", "namespace of values, and of manifests that name none; for "+
		"--controller-values")
	flags.StringVar(&o.format, "o", "text", "text or json")
	flags.StringVar(&o.controllerValues, "controller-values", "",
		"file with values of the chart gha-runner-scale-set-controller: says what its tenants allow or refuse")
	flags.StringVar(&o.storageClasses, "storage-classes", "", "file with the StorageClasses of the cluster, as kubectl get "+
		"storageclasses -o yaml prints them: says which volume claims of runners will get no volume there")
	flags.StringVar(&o.policy, "listener-template-policy", listenertemplate.Restricted,
		"the manager's policy for listenerTemplate: restricted or unrestricted")
	for name, listed := range map[string]struct {
		usage string
		list  *[]string
	}{
		"listener-sidecar-images": {
			"image that the manager allows in further containers of listener pods; may be repeated",
			&o.listeners.SidecarImages,
		},
		"listener-metadata-keys": {
			"key of labels and annotations that the manager allows on listeners, or DOMAIN/*; may be repeated",
			&o.listeners.MetadataKeys,
		},
		"listener-priority-classes": {
			"PriorityClass that the manager allows for listener pods; may be repeated", &o.listeners.PriorityClasses,
		},
	} {
		flags.Func(name, listed.usage, func(entry string) error {
			*listed.list = append(*listed.list, entry)
			return nil
		})
	}
	flags.Func(addresses.Flag, "address that the controller allows scale sets (its flags.allowedGitHubURLs); may be "+
		"repeated", func(text string) error {
		o.allowed = append(o.allowed, text)
		return nil
	})
	return o
}

// Run checks the files and values of the options, and reports what is wrong. rest has the command line's arguments
// besides flags; there may be none. It fails with finding.ErrProblems if anything is wrong, with ErrNothingChecked if
// there is nothing of ours, or with the reason why it can't be checked.
func (o *Options) Run(ctx context.Context, rest []string, to io.Writer) error {
	if err := o.refuse(rest); err != nil {
		return err
	}
	o.listeners.Unrestricted = o.policy == listenertemplate.Unrestricted
	inputs, err := files.ReadInputs(o.paths)
	if err != nil {
		return err
	}
	beside := parent{chart: o.chart}
	if len(o.paths) > 0 && o.chart == "" {
		if beside, err = parentOf(o.paths[0]); err != nil {
			return err
		}
	}
	var entries tenants.Entries
	if o.controllerValues != "" {
		content, err := files.Read(o.controllerValues, files.MaxInput)
		if err != nil {
			return err
		}
		if entries, err = tenants.Read(content); err != nil {
			return fmt.Errorf("%s: %w", o.controllerValues, err)
		}
	}
	var classes []metav1.PartialObjectMetadata
	if o.storageClasses != "" {
		if classes, err = readClasses(o.storageClasses); err != nil {
			return err
		}
	}
	addressPolicy, err := addresses.New(o.allowed)
	if err != nil {
		return fmt.Errorf("--%s: %w", addresses.Flag, err)
	}
	var names []string
	for _, file := range inputs {
		names = append(names, file.Name)
	}
	place := cmp.Or(strings.Join(names, ", "), "the command line")
	v, err := dryrun.InTime(ctx, func() (*validated, error) {
		return validate(inputs, o.set, beside,
			controller{listeners: o.listeners, addresses: addressPolicy, tenants: entries, namespace: o.namespace,
				classes: classes})
	})
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return v.report(to, place, o.format)
}

// refuse returns what is wrong with the command line; rest has its arguments besides flags.
func (o *Options) refuse(rest []string) error {
	if len(o.paths)+len(o.set) == 0 || len(rest) > 0 {
		return errors.New("name a file with -f FILE, and nothing else without a flag; --help explains the flags")
	}
	if o.format != "text" && o.format != "json" {
		return fmt.Errorf("-o %q is unknown; use text or json", o.format)
	}
	if !slices.Contains([]string{"", charts.ScaleSet, charts.Controller}, o.chart) {
		return fmt.Errorf("--chart %q is unknown; use %s or %s", o.chart, charts.ScaleSet, charts.Controller)
	}
	if !slices.Contains(listenertemplate.Names, o.policy) {
		return fmt.Errorf("--listener-template-policy=%q is unknown; use %s", o.policy,
			strings.Join(listenertemplate.Names, " or "))
	}
	return nil
}

// Validate checks a file of YAML documents before they are applied: AutoscalingRunnerSets, including those in a List;
// values of both charts, given as documents without a kind, as those of a chart that has ours below it, or in objects
// of Flux and Argo CD. It skips other kinds, and fails if the file is not YAML. The manager is taken to have the
// restricted policy for listener pods, and no flags.allowedGitHubURLs.
//
// controllerValues, if there are any, are values of the controller's chart; their value tenants limits the sets.
// namespace is that of values, and of objects that name none.
func Validate(content, controllerValues []byte, namespace string) ([]finding.Finding, error) {
	entries, err := tenants.Read(controllerValues)
	if err != nil {
		return nil, err
	}
	return findings(content, controller{tenants: entries, namespace: namespace})
}

// ValidateValues checks values of a scale set for a controller that allows these addresses.
func ValidateValues(content []byte, namespace string, allowed []string) ([]finding.Finding, error) {
	policy, err := addresses.New(allowed)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", addresses.Flag, err)
	}
	return findings(content, controller{addresses: policy, namespace: namespace})
}

func findings(content []byte, known controller) ([]finding.Finding, error) {
	v, err := validate([]files.Input{{Content: content}}, nil, parent{}, known)
	if err != nil {
		return nil, err
	}
	return v.findings, nil
}

// report writes what is wrong with a file. It fails with ErrProblems if anything is, other than what may be meant so,
// and with ErrNothingChecked if nothing was checked: a wrong file or an empty pipe must not pass as valid.
func (v *validated) report(to io.Writer, file, format string) error {
	wrong := slices.ContainsFunc(v.findings, func(f finding.Finding) bool { return f.Severity == finding.Problem })
	if len(v.findings) == 0 && v.checked == 0 {
		return fmt.Errorf("%w: %s has %s; pass values of our charts, %ss, possibly in a %s, HelmReleases or "+
			"Applications",
			ErrNothingChecked, file, v.others(), setKind, listSuffix)
	}
	if format == "json" {
		result := struct {
			File     string            `json:"file"`
			Findings []finding.Finding `json:"findings"`
			Notes    []string          `json:"notes"`
		}{file, append([]finding.Finding{}, v.findings...), append([]string{}, v.notes...)}
		if err := output.WriteJSON(to, result, true); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	} else {
		v.write(to, output.OneLine(file))
	}
	if wrong {
		return finding.ErrProblems
	}
	return nil
}

func (v *validated) write(to io.Writer, file string) {
	for _, found := range v.findings {
		fmt.Fprintf(to, "%s: %s: %s: %s\n   To do: %s\n", file, output.OneLine(found.Object), found.Reason,
			output.OneLine(found.Message), output.OneLine(found.Fix))
	}
	for _, note := range v.notes {
		fmt.Fprintf(to, "%s: %s.\n", file, strings.TrimSuffix(output.OneLine(note), "."))
	}
	switch {
	case len(v.findings) == 0 && len(v.notes) == 0:
		fmt.Fprintf(to, "Nothing is wrong in %s.\n", file)
	case len(v.findings) == 0:
		fmt.Fprintf(to, "Nothing is wrong in %s but what is noted above.\n", file)
	}
}

// others describes what the file has instead of values and scale sets.
func (v *validated) others() string {
	if len(v.skipped) == 0 {
		return "no values and no object"
	}
	slices.Sort(v.skipped)
	return "only content that is not checked: " + strings.Join(slices.Compact(v.skipped), ", ")
}
