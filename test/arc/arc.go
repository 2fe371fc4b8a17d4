// Package arc makes a scale set with one busy runner as actions-runner-controller 0.14.2 and its chart leave it, on
// GitHub and in the cluster. Tests take it over: test/integration with a simulated node, test/e2e with a real one.
package arc

import (
	"bytes"
	"context"
	_ "embed" // the manifests
	"fmt"
	"net/http"
	"strings"
	"text/template"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/kube"
)

const (
	// Name is the scale set's, here and on GitHub.
	Name = "arc"
	// Runner is the name of its first runner.
	Runner = Name + "-k7x2m-runner-p9q4d"
	// ownerAnnotation has the form KIND/NAME. It stands for an owner reference in the manifests, because they can't
	// know UIDs.
	ownerAnnotation = "test/controlled-by"
)

//go:embed manifests.yaml
var manifests string

// Place is the place of a scale set: namespaces of controller and runners, the controller's account, and GitHub.
type Place struct {
	System, Runners, Account, URL, Token string
	// RoundTripper reaches GitHub without a network; nil means the network.
	RoundTripper http.RoundTripper
}

// Set is such a scale set.
type Set struct {
	Place
	// ScaleSet is its id on GitHub. The others belong to its runner and its listener.
	ScaleSet, RunnerID  int
	JITConfig, Listener string
	// Runner is the name of its runner.
	Runner string
}

func (p Place) client() (*actions.Client, error) {
	return actions.NewClient(p.URL, actions.Credentials{Token: p.Token}, actions.Options{RoundTripper: p.RoundTripper})
}

// Register makes the scale set on GitHub with a runner that has not connected yet.
func Register(ctx context.Context, place Place) (*Set, error) {
	github, err := place.client()
	if err != nil {
		return nil, err
	}
	set, err := github.CreateRunnerScaleSet(ctx, &actions.RunnerScaleSet{
		Name: Name, RunnerGroupID: 1, Labels: []actions.Label{{Name: Name}},
		RunnerSetting: actions.RunnerSetting{DisableUpdate: true},
	})
	if err != nil {
		return nil, err
	}
	made := &Set{Place: place, ScaleSet: set.ID, Listener: kube.ARCListenerName(
		&v1alpha1.AutoscalingRunnerSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: place.Runners, Name: Name},
			Spec:       v1alpha1.AutoscalingRunnerSetSpec{GitHubConfigUrl: place.URL},
		})}
	return made, made.register(ctx, github, Runner)
}

// Again returns the same scale set with another runner, which has not connected yet.
func (s *Set) Again(ctx context.Context, runner string) (*Set, error) {
	github, err := s.client()
	if err != nil {
		return nil, err
	}
	again := *s
	return &again, again.register(ctx, github, runner)
}

func (s *Set) register(ctx context.Context, github *actions.Client, runner string) error {
	jit, err := github.GenerateJITConfig(ctx, s.ScaleSet, actions.JITConfigRequest{Name: runner})
	if err != nil {
		return err
	}
	s.Runner, s.RunnerID, s.JITConfig = runner, jit.Runner.ID, jit.EncodedJITConfig
	return nil
}

// CreateObjects has create make each object, owners first, and leave the API server's answer in it. replacements are
// pairs of a text in the manifests, such as "image: runner", and its replacement.
func (s *Set) CreateObjects(create func(*unstructured.Unstructured) error, replacements ...string) error {
	var text bytes.Buffer
	if err := template.Must(template.New(Name).Parse(manifests)).Execute(&text, s); err != nil {
		return fmt.Errorf("fill in the manifests: %w", err)
	}
	made := map[string]*unstructured.Unstructured{}
	for document := range strings.SplitSeq(strings.NewReplacer(replacements...).Replace(text.String()), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return fmt.Errorf("%w in\n%s", err, document)
		}
		adopt(object, made)
		name := object.GetKind() + "/" + object.GetName()
		if err := create(object); err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
		made[name] = object
	}
	return nil
}

// adopt turns the annotation into an owner reference.
func adopt(object *unstructured.Unstructured, made map[string]*unstructured.Unstructured) {
	annotations := object.GetAnnotations()
	if owner := made[annotations[ownerAnnotation]]; owner != nil {
		object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
	}
	delete(annotations, ownerAnnotation)
	object.SetAnnotations(annotations)
}
