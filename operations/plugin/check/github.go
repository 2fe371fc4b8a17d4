package check

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/causes"
	"github.com/harrier-ci/harrier/internal/credentials"
	"github.com/harrier-ci/harrier/internal/meaning"
)

// fromHere reminds of where the requests come from.
const fromHere = "asked from this machine, by the proxy of the values if they name one: the cluster's own way may be another"

// github asks GitHub what the manager will ask it: by address, credentials, proxy and authorities of the values.
func (x *examination) github(ctx context.Context) {
	set := x.set.DeepCopy()
	set.Namespace = x.Namespace
	line := Line{Check: "github", Object: set.Spec.GitHubConfigUrl}
	github, err := credentials.New(planned{x.cluster, x}, credentials.Options{}).Client(ctx, credentials.ForAutoscalingRunnerSet(set))
	if err == nil {
		defer github.Close()
		var found []actions.RunnerScaleSet
		if found, err = github.ListRunnerScaleSets(ctx); err == nil {
			line.Message = fmt.Sprintf("it takes the credentials, and has %d scale sets there", len(found))
		}
	}
	if err == nil && set.Spec.RunnerGroup != "" {
		_, err = github.GetRunnerGroupByName(ctx, set.Spec.RunnerGroup)
	}
	switch cause := causes.Of(err); {
	case err == nil:
		line.Status = OK
		line.Message += "; " + fromHere
	case cause.Actor == meaning.Nobody || apierrors.IsForbidden(err):
		line.Status, line.Reason, line.Message = Unknown, cause.Reason, fmt.Sprintf("%v; %s", err, fromHere)
	default:
		line.Status, line.Reason, line.Message = Problem, cause.Reason, fmt.Sprintf("%v; %s", err, fromHere)
		line.Whose, line.Fix = cause.Actor.String(), cmp.Or(cause.Advice, "correct what the message names")
	}
	x.add(line)
}

// planned reads Secrets and ConfigMaps as they will be: those that the chart renders, and otherwise the cluster's.
type planned struct {
	client.Reader
	x *examination
}

func (p planned) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	kind := ""
	switch into.(type) {
	case *corev1.Secret:
		kind = "Secret"
	case *corev1.ConfigMap:
		kind = "ConfigMap"
	}
	for _, object := range p.x.objects {
		if kind == "" || object.GetKind() != kind || object.GetName() != key.Name || key.Namespace != p.x.Namespace {
			continue
		}
		content, err := json.Marshal(object)
		return errors.Join(err, json.Unmarshal(content, into))
	}
	return p.Reader.Get(ctx, key, into, options...)
}
