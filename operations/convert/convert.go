// Package convert makes values of the chart gha-runner-scale-set from objects of ARC's legacy mode, and reports fields
// without a counterpart:
//
//	files ─▶ legacy.Read ─▶ objects, each with its autoscalers
//	      ─▶ conversion.From (pure) ─▶ values, which the doctor validates, and report
//
// Every field becomes a value or is named in the report.
package convert

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/harrier-ci/harrier/internal/output"
	"github.com/harrier-ci/harrier/operations/convert/conversion"
	"github.com/harrier-ci/harrier/operations/convert/legacy"
	"github.com/harrier-ci/harrier/operations/convert/remarks"
	"github.com/harrier-ci/harrier/operations/dryrun"
	"github.com/harrier-ci/harrier/operations/files"
	"github.com/harrier-ci/harrier/operations/finding"
	"github.com/harrier-ci/harrier/operations/validation"
)

// ErrNothingToConvert reports that the input has no object of ARC's legacy mode.
var ErrNothingToConvert = errors.New("nothing to convert: there is no RunnerDeployment, RunnerReplicaSet, RunnerSet " +
	"or Runner")

// Options select what is converted, and add what the objects lack.
type Options struct {
	// paths are files and directories, - for standard input. Values are written into directory; if it is empty, to
	// standard output.
	paths     []string
	directory string
	// namespace is that of objects that name none. format is that of the report.
	namespace, format string
	// githubURL is the address of GitHub, and secret the name of the Secret of sets whose objects name none.
	githubURL, secret string
}

// NewOptions returns the options that flags set when they are parsed.
func NewOptions(flags *flag.FlagSet) *Options {
	o := &Options{}
	flags.Func("f", "file or directory with manifests, -: standard input; may be repeated. Of a directory, its files "+
		"*.yaml, *.yml and *.json are read; the report names directories below it, which are not",
		func(path string) error {
			o.paths = append(o.paths, path)
			return nil
		})
	flags.StringVar(&o.directory, "d", "",
		"directory for one file of values for each scale set; it is made if it isn't there. Empty: values go to "+
			"standard output, the report to standard error")
	flags.StringVar(&o.namespace, "n", "", "namespace of manifests that name none")
	flags.StringVar(&o.format, "o", "text",
		"format of the report, text or json; json goes to standard output, and needs -d for the values")
	flags.StringVar(&o.githubURL, "github-url", "https://github.com",
		"address of GitHub; that of GitHub Enterprise Server, if ARC's controller had it as "+
			"--github-enterprise-url or GITHUB_ENTERPRISE_URL")
	flags.StringVar(&o.secret, "github-config-secret", "",
		"name of the Secret, in the namespace of each scale set, for those without githubAPICredentialsFrom")
	return o
}

// Run converts what the options name, and writes values and report. rest has what the command line has besides flags,
// which must be nothing. It fails with finding.ErrProblems if something has to be done by hand, or with the reason why
// there is nothing to show.
func (o *Options) Run(ctx context.Context, rest []string, stdout, stderr io.Writer) error {
	if len(o.paths) == 0 || len(rest) > 0 {
		return errors.New("name a file with -f FILE, and nothing else without a flag; --help explains the flags")
	}
	if o.format != "text" && o.format != "json" {
		return fmt.Errorf("-o %q is unknown; use text or json", o.format)
	}
	if err := o.checkURL(); err != nil {
		return err
	}
	paths, below, err := listed(o.paths)
	if err != nil {
		return err
	}
	inputs, err := files.ReadInputs(paths)
	if err != nil {
		return err
	}
	type result struct {
		report    *remarks.Report
		documents []string
	}
	converted, err := dryrun.InTime(ctx, func() (result, error) {
		report, documents, err := o.convert(inputs, below)
		return result{report, documents}, err
	})
	if err != nil {
		return err
	}
	told := stdout
	switch {
	case o.directory != "":
		if err := o.save(converted.report, converted.documents); err != nil {
			return err
		}
	case o.format != "json":
		told = stderr
		if _, err := io.WriteString(stdout, strings.Join(converted.documents, "---\n")); err != nil {
			return fmt.Errorf("write the values: %w", err)
		}
	}
	if err := converted.report.Write(told, o.format); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if converted.report.NeedsHand() {
		return finding.ErrProblems
	}
	return nil
}

// checkURL wants the address of a server alone. It isn't quoted, as it may have a password.
func (o *Options) checkURL() error {
	o.githubURL = strings.TrimRight(o.githubURL, "/")
	address, err := url.Parse(o.githubURL)
	if err != nil || (address.Scheme != "https" && address.Scheme != "http") || address.Host == "" ||
		address.User != nil || address.Path != "" || address.RawQuery != "" || address.Fragment != "" {
		return errors.New("--github-url is not the address of a server alone, such as https://github.example.com")
	}
	return nil
}

// listed returns the files of directories in place of these, and the directories below them, which are not read.
func listed(paths []string) (all, below []string, err error) {
	for _, path := range paths {
		if path == "-" {
			all = append(all, path)
			continue
		}
		if info, err := os.Stat(path); err != nil {
			return nil, nil, err
		} else if !info.IsDir() {
			all = append(all, path)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, nil, err
		}
		for _, entry := range entries {
			inside := filepath.Join(path, entry.Name())
			info, err := os.Stat(inside) // of what a link leads to
			switch {
			case err == nil && info.IsDir():
				below = append(below, inside)
			case slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())):
				all = append(all, inside)
			}
		}
	}
	return all, below, nil
}

// convert returns the report, and the values of each of its sets as a document. below are directories that were not
// read.
func (o *Options) convert(inputs []files.Input, below []string) (*remarks.Report, []string, error) {
	found, err := legacy.Read(inputs, o.namespace)
	if err != nil {
		return nil, nil, err
	}
	if len(found.Runners) == 0 {
		others := cmp.Or(finding.Listed(append(describe(found.Owned, found.Autoscalers), found.Others...), maxNamed),
			"no object at all")
		if len(below) > 0 {
			others += ", and directories that are not read: " + finding.Listed(below, maxNamed)
		}
		if len(found.Autoscalers) > 0 {
			kind, name := found.Autoscalers[0].Target()
			others += fmt.Sprintf("; an autoscaler alone has numbers and no runners: give the file with its %s %q, too",
				kind, name)
		}
		return nil, nil, fmt.Errorf("%w; found %s", ErrNothingToConvert, output.OneLine(others))
	}
	now := time.Now()
	told, documents, taken, used := &remarks.Report{}, []string{}, names{map[string]bool{}, map[string]int{}},
		map[*legacy.Object]bool{}
	for _, object := range found.Runners {
		var autoscalers []*legacy.Object
		for _, one := range found.Autoscalers {
			if one.Scales(object) {
				used[one], autoscalers = true, append(autoscalers, one)
			}
		}
		values, set, notes := conversion.From(object, autoscalers, taken.choose(object),
			conversion.Given{GitHubURL: o.githubURL, Secret: o.secret, Now: now})
		document, err := document(values, set, notes)
		if err != nil {
			return nil, nil, err
		}
		told.Sets, told.Findings, documents = append(told.Sets, set), append(told.Findings, notes.Findings...),
			append(documents, document)
	}
	told.Findings = append(told.Findings, leftOver(found, used, below)...)
	told.Sort()
	return told, documents, nil
}

const maxNamed = 10

func describe(lists ...[]*legacy.Object) (names []string) {
	for _, object := range slices.Concat(lists...) {
		names = append(names, object.String())
	}
	return names
}

// leftOver returns findings about objects that became no scale set.
func leftOver(found *legacy.Objects, used map[*legacy.Object]bool, below []string) []remarks.Finding {
	notes := remarks.Notes{}
	for _, one := range found.Autoscalers {
		if !used[one] {
			notes.Object = one.String()
			kind, name := one.Target()
			notes.NeedsHand("NoTarget", fmt.Sprintf("it scales the %s %q, which is not among what is converted",
				kind, name),
				remarks.Advice{
					Whose: remarks.Installer,
					Fix:   "give the file with its " + kind + ", too, or set minRunners and maxRunners by hand",
				}, "spec.scaleTargetRef")
		}
	}
	notes.Object = ""
	notes.NotNeeded("another object made it, which says the same", describe(found.Owned)...)
	notes.NotNeeded("not converted, because it is no object of ARC's legacy mode: it stays as it is", found.Others...)
	if len(below) > 0 {
		notes.NeedsLook("NotRead", "of a directory its own files are read, and not these directories",
			remarks.Advice{Whose: remarks.Installer, Fix: "if they have manifests, convert again with -f for each"},
			below...)
	}
	for _, doubt := range found.Doubts {
		notes.Object = doubt.Place
		notes.NeedsLook("KeyTwice", doubt.Text+
			"; the last one counts", remarks.Advice{Whose: remarks.Installer, Fix: "see which of the two is meant"})
	}
	return notes.Findings
}

// document writes the values as YAML, and notes what the chart, the API server and the manager would find wrong in
// them.
func document(values map[string]any, set *remarks.Set, notes *remarks.Notes) (string, error) {
	content, err := output.MarshalYAML(values)
	if err != nil {
		return "", fmt.Errorf("write the values of %s: %w", notes.Object, err)
	}
	findings, err := validation.Validate(content, nil, set.Namespace)
	if err != nil {
		return "", fmt.Errorf("validate the values of %s: %w", notes.Object, err)
	}
	for _, found := range findings {
		found.Object = notes.Object
		notes.Findings = append(notes.Findings, remarks.Finding{Finding: found, Whose: remarks.Installer})
	}
	return set.Header() + string(content), nil
}

// save writes a file for each set. An existing file with other content stays, and then no file is written: somebody may
// have changed it.
func (o *Options) save(told *remarks.Report, documents []string) error {
	for i, set := range told.Sets {
		set.File = filepath.Join(o.directory, set.Name+".yaml")
		content, err := files.Read(set.File, files.MaxInput)
		if err == nil && string(content) != documents[i] {
			return fmt.Errorf("%s is there and says something else: remove it, or choose another directory; nothing "+
				"is written",
				set.File)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.MkdirAll(o.directory, 0o750); err != nil {
		return err
	}
	for i, set := range told.Sets {
		if err := os.WriteFile(set.File, []byte(documents[i]), 0o600); err != nil { // variables may have secrets
			return err
		}
	}
	return nil
}
