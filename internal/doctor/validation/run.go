package validation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/addresses"
	"github.com/harrier-ci/harrier/internal/doctor/finding"
	"github.com/harrier-ci/harrier/internal/doctor/tenants"
	"github.com/harrier-ci/harrier/internal/listenertemplate"
)

// timeout limits a check.
const timeout = time.Minute

// ErrNothingChecked says that the input has neither values nor a scale set.
var ErrNothingChecked = errors.New("nothing was checked")

// Options say what is checked, and what is known of the controller that will serve it.
type Options struct {
	// paths are files with values or manifests, - for standard input; set lies on all of them.
	paths []string
	set   settings
	// namespace is that of values, and of objects that name none. format is that of the report.
	namespace, format string
	// controllerValues is a file with values of the controller's chart, empty if these are not known.
	controllerValues string
	// policy is the name of the one for listener pods, and listeners what it is with its images.
	policy    string
	listeners listenertemplate.Policy
	// allowed are the controller's flags.allowedGitHubURLs.
	allowed []string
}

// NewOptions returns the options that flags set once they have been parsed.
func NewOptions(flags *flag.FlagSet) *Options {
	o := &Options{}
	flags.Func("f", "file with values or manifests, -: standard input; may be repeated: values are merged as Helm merges them", func(path string) error {
		o.paths = append(o.paths, path)
		return nil
	})
	for _, flag := range settingFlags {
		flags.Func(flag.name, flag.usage, func(text string) error {
			o.set = append(o.set, setting{flag, text})
			return nil
		})
	}
	flags.StringVar(&o.namespace, "n", "", "namespace of values, and of manifests that name none; for --controller-values")
	flags.StringVar(&o.format, "o", "text", "text or json")
	flags.StringVar(&o.controllerValues, "controller-values", "",
		"file with values of the chart gha-runner-scale-set-controller: says what its tenants allow or refuse")
	flags.StringVar(&o.policy, "listener-template-policy", listenertemplate.Restricted, "the manager's policy for listenerTemplate: restricted or unrestricted")
	flags.Func("listener-sidecar-images", "image that the manager allows in further containers of listener pods; may be repeated", func(image string) error {
		o.listeners.SidecarImages = append(o.listeners.SidecarImages, image)
		return nil
	})
	flags.Func(addresses.Flag, "address that the controller allows scale sets (its flags.allowedGitHubURLs); may be repeated", func(text string) error {
		o.allowed = append(o.allowed, text)
		return nil
	})
	return o
}

// Run checks what the options name and reports what is wrong. rest is what the command line has besides flags, which is nothing. It fails with
// finding.ErrProblems if anything is wrong, with ErrNothingChecked if there is nothing of ours, or with the reason why it can't be checked.
func (o *Options) Run(ctx context.Context, rest []string, output io.Writer) error {
	if len(o.paths)+len(o.set) == 0 || len(rest) > 0 {
		return errors.New("run manager validate -f FILE; --help explains the flags")
	}
	if o.format != "text" && o.format != "json" {
		return fmt.Errorf("-o %q is unknown; use text or json", o.format)
	}
	if !slices.Contains(listenertemplate.Names, o.policy) {
		return fmt.Errorf("--listener-template-policy=%q is unknown; use %s", o.policy, strings.Join(listenertemplate.Names, " or "))
	}
	o.listeners.Unrestricted = o.policy == listenertemplate.Unrestricted
	inputs, err := readInputs(o.paths)
	if err != nil {
		return err
	}
	beside := parent{}
	if len(o.paths) > 0 {
		if beside, err = parentOf(o.paths[0]); err != nil {
			return err
		}
	}
	var entries tenants.Entries
	if o.controllerValues != "" {
		content, err := readFile(o.controllerValues, maxInput)
		if err != nil {
			return err
		}
		if entries, err = tenants.Read(content); err != nil {
			return fmt.Errorf("%s: %w", o.controllerValues, err)
		}
	}
	addressPolicy, err := addresses.New(o.allowed)
	if err != nil {
		return fmt.Errorf("--%s: %w", addresses.Flag, err)
	}
	var names []string
	for _, file := range inputs {
		names = append(names, file.name)
	}
	place := cmp.Or(strings.Join(names, ", "), "the command line")
	v, err := validateInTime(ctx, func() (*validated, error) {
		return validate(inputs, o.set, beside, controller{listeners: o.listeners, addresses: addressPolicy, tenants: entries, namespace: o.namespace})
	})
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return v.report(output, place, o.format)
}

// errTooLong: templates have no limit of their own, and values can be made so that one doesn't end in a day.
var errTooLong = fmt.Errorf("the check has not ended within %v: validate fewer values at a time, or smaller ones", timeout)

// validateInTime ends when the check does, or when its time does. What is left of the check ends with the program.
func validateInTime(ctx context.Context, check func() (*validated, error)) (*validated, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTooLong)
	defer cancel()
	type result struct {
		validation *validated
		err        error
	}
	ended := make(chan result, 1)
	go func() {
		v, err := check()
		ended <- result{v, err}
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case found := <-ended:
		return found.validation, found.err
	}
}

// Validate checks a file of YAML documents before they are applied: AutoscalingRunnerSets, including those in a List; values of both charts,
// given as documents without a kind, as those of a chart that has ours below it, or in objects of Flux and Argo CD. It skips other kinds, and
// fails if the file is not YAML. The manager is taken to have the restricted policy for listener pods, and no flags.allowedGitHubURLs.
//
// controllerValues, if there are any, are values of the controller's chart, whose value tenants says what is allowed. namespace is that of
// values, and of objects that name none.
func Validate(content, controllerValues []byte, namespace string) ([]finding.Finding, error) {
	entries, err := tenants.Read(controllerValues)
	if err != nil {
		return nil, err
	}
	known := controller{tenants: entries, namespace: namespace}
	v, err := validate([]input{{content: content}}, nil, parent{}, known)
	if err != nil {
		return nil, err
	}
	return v.findings, nil
}

// report writes what is wrong with a file. It fails with ErrProblems if anything is, other than what may be meant so, and with
// ErrNothingChecked if nothing was checked: a wrong file or an empty pipe must not pass as valid.
func (v *validated) report(output io.Writer, file, format string) error {
	wrong := slices.ContainsFunc(v.findings, func(f finding.Finding) bool { return f.Severity == finding.Problem })
	if len(v.findings) == 0 && v.checked == 0 {
		return fmt.Errorf("%w: %s has %s; pass values of our charts, %ss, possibly in a %s, HelmReleases or Applications",
			ErrNothingChecked, file, v.others(), setKind, listSuffix)
	}
	if format == "json" {
		result := struct {
			File     string            `json:"file"`
			Findings []finding.Finding `json:"findings"`
			Notes    []string          `json:"notes"`
		}{file, append([]finding.Finding{}, v.findings...), append([]string{}, v.notes...)}
		encoder := json.NewEncoder(output)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(result); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	} else {
		v.write(output, file)
	}
	if wrong {
		return finding.ErrProblems
	}
	return nil
}

func (v *validated) write(output io.Writer, file string) {
	for _, found := range v.findings {
		fmt.Fprintf(output, "%s: %s: %s: %s\n   To do: %s\n", file, finding.OneLine(found.Object), found.Reason, finding.OneLine(found.Message), finding.OneLine(found.Fix))
	}
	for _, note := range v.notes {
		fmt.Fprintf(output, "%s: %s.\n", file, strings.TrimSuffix(note, "."))
	}
	if len(v.findings) == 0 {
		fmt.Fprintf(output, "Nothing is wrong in %s.\n", file)
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

// maxInput is the size of a file that is read: a thousand scale sets of a cluster have some 20 MB.
const maxInput = 64 << 20

// readInputs reads files, with the name to use for each in messages.
func readInputs(paths []string) (inputs []input, err error) {
	for _, path := range paths {
		file := input{name: path}
		if path == "-" {
			file.name = "standard input"
			file.content, err = readAll(os.Stdin, file.name, maxInput)
		} else {
			file.content, err = readFile(path, maxInput)
		}
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, file)
	}
	return inputs, nil
}

func readAll(from io.Reader, name string, limit int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(from, limit+1))
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%s has more than %d MiB, which is more than is read", name, limit>>20)
	}
	return content, err
}

// readFile reads a file of the caller's up to a size.
func readFile(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the caller's own file
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAll(file, path, limit)
}
