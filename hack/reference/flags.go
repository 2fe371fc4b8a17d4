package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"strings"

	"github.com/harrier-ci/harrier/internal/listener/config"
	"github.com/harrier-ci/harrier/internal/manager"
	"github.com/harrier-ci/harrier/operations/commands"
	"github.com/harrier-ci/harrier/operations/history"
)

const flagsHead = `<!-- Written by hack/generate.sh from the code; don't edit. -->

# Flags and variables

The image has three programs: ` + "`/manager`, `/ghalistener`, and `/harrier`, which has the commands `manager doctor`, `manager validate`, `manager convert` and `manager history`" + `. The chart of the controller sets the manager's flags from its
[values](values-gha-runner-scale-set-controller.md), and the manager sets everything that a listener needs. ` + "`--help`" + `
after a command prints its flags. The plugin of kubectl has [a page of its own](kubectl-harrier.md).

## manager
`

const environment = `
## ghalistener

The listener has no flags. Its settings are a file that the manager writes into a Secret; changes reach the running process.

## Environment

| variable | of | |
|---|---|---|
| ` + "`CONTROLLER_MANAGER_POD_NAMESPACE`" + ` | manager | its own namespace; required, the chart sets it |
| ` + "`CONTROLLER_MANAGER_POD_NAME`" + ` | manager | its own pod, by which it finds the other pods of its Deployment; the chart sets it |
| ` + "`CONTROLLER_MANAGER_CONTAINER_IMAGE`" + ` | manager | image that listeners run; required, the chart sets it |
| ` + "`LISTENER_ENTRYPOINT`" + ` | manager | program that listeners start, ` + "`/ghalistener`" + ` by default |
| ` + "`HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`" + ` | manager | for the manager's calls to GitHub for scale sets without their own ` + "`proxy`" + `; listeners and runners don't inherit them and need that ` + "`proxy`" + ` |
| ` + "`GITHUB_ACTIONS_FORCE_GHES`" + ` | manager, listener | if set, to any value, every host counts as GitHub Enterprise Server; listeners have it only from the ` + "`env`" + ` of their ` + "`listenerTemplate`" + ` |
| ` + "`HISTORY_DATABASE_URL`" + ` | manager history | URL of a PostgreSQL, instead of a file; the chart takes it from a Secret |
| ` + "`KUBECONFIG`" + ` | all | the API server, outside a cluster |
| ` + "`GOGC`, `GOMEMLIMIT`" + ` | all | Go's own: ` + "`GOGC`" + ` takes precedence over what manager and listener set; they don't set ` + "`GOMEMLIMIT`" + ` |
`

// ignoredUsage begins the usage of flags without effect.
const ignoredUsage = "accepted for ARC's command lines and ignored"

// flags returns the page about the programs' command lines.
func flags() (string, error) {
	page := &strings.Builder{}
	page.WriteString(flagsHead)
	if err := writeManager(page); err != nil {
		return "", err
	}
	for _, command := range commands.Names {
		var usage bytes.Buffer
		commands.Main(context.Background(), []string{command, "-help"}, &usage, &usage)
		rows, _, err := parseUsage(usage.String(), "-")
		if err != nil {
			return "", err
		}
		fmt.Fprintf(page, "\n## manager %s\n", command)
		table(page, []string{"flag", "type", "default", ""}, rows)
	}
	fmt.Fprintf(page, "\nAll exit with %d if they find no problem (warnings don't count), with %d if they do, "+
		"and with %d if they could not do their work.\n",
		commands.ExitFine, commands.ExitProblems, commands.ExitUnable)
	var usage bytes.Buffer
	_, err := history.ParseOptions([]string{"-help"}, func(string) string { return "" }, &usage)
	if !errors.Is(err, flag.ErrHelp) {
		return "", fmt.Errorf("ask the ledger for its flags: %w", err)
	}
	rows, _, err := parseUsage(usage.String(), "--")
	if err != nil {
		return "", err
	}
	page.WriteString("\n## manager history\n")
	table(page, []string{"flag", "type", "default", ""}, rows)
	page.WriteString(environment)
	for _, variable := range [][2]string{
		{config.PathVariable, "path of its settings; the manager sets it"},
		{config.HealthAddressVariable, fmt.Sprintf("address of `/healthz` and `/readyz`, `:%d` by default",
			config.HealthPort)},
		{config.MetricsAddressVariable, "address of its metrics, instead of the one in the settings"},
	} {
		fmt.Fprintf(page, "| `%s` | listener | %s |\n", variable[0], variable[1])
	}
	return page.String(), nil
}

func writeManager(page *strings.Builder) error {
	var usage bytes.Buffer
	_, err := manager.ParseOptions([]string{"-help"}, func(string) string { return "" }, &usage)
	if !errors.Is(err, flag.ErrHelp) {
		return fmt.Errorf("ask the manager for its flags: %w", err)
	}
	rows, ignored, err := parseUsage(usage.String(), "--")
	if err != nil {
		return err
	}
	table(page, []string{"flag", "type", "default", ""}, rows)
	fmt.Fprintf(page, "\nThese flags of actions-runner-controller are accepted and do nothing, so that its command "+
		"lines work: %s.\n",
		strings.Join(ignored, ", "))
	return nil
}

// one matches a flag as package flag prints it.
var one = regexp.MustCompile(`(?m)^  -([a-z0-9-]+)(?: ([a-z0-9]+))?(?:\n    )?\t(.*?)(?: \(default (.*)\))?$`)

// parseUsage turns what package flag prints into rows, with the dashes that users write. Flags without effect are only
// named. It fails if it does not understand a flag.
func parseUsage(usage, dashes string) (rows [][]string, ignored []string, err error) {
	found := one.FindAllStringSubmatch(usage, -1)
	if want := strings.Count(usage, "\n  -"); len(found) != want {
		return nil, nil, fmt.Errorf("understood %d of %d flags in:\n%s", len(found), want, usage)
	}
	for _, f := range found {
		name, kind, text, preset := code(dashes+f[1]), f[2], f[3], f[4]
		if strings.HasPrefix(text, ignoredUsage) {
			ignored = append(ignored, name)
			continue
		}
		switch kind {
		case "":
			kind = "boolean"
		case "value":
			kind = "string"
		}
		rows = append(rows, []string{name, kind, code(strings.Trim(preset, `"`)), cell(text)})
	}
	return rows, ignored, nil
}
