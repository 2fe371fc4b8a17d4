package scalesets_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/github/actions"
	"github.com/harrier-ci/harrier/internal/fakegithub"
	"github.com/harrier-ci/harrier/internal/kube/kinds"
	"github.com/harrier-ci/harrier/operations/plugin/scalesets"
)

// world is a GitHub with two scale sets of an organization, the first of which a set of the cluster holds.
type world struct {
	*testing.T
	github     *fakegithub.Server
	client     *actions.Client
	address    string
	cluster    client.Reader
	held, left int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, github: fakegithub.New(fakegithub.Options{PATs: []string{"mine"}})}
	t.Cleanup(w.github.Close)
	server, err := w.github.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = server + "/acme"
	if w.client, err = actions.NewClient(w.address, actions.Credentials{Token: "mine"}, actions.Options{}); err != nil {
		t.Fatal(err)
	}
	w.held, w.left = w.create("held"), w.create("left")
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "ours",
		Annotations: map[string]string{v1alpha1.AnnotationRunnerScaleSetID: strconv.Itoa(w.held)}}}
	set.Spec.GitHubConfigUrl, set.Spec.GitHubConfigSecret = w.address+"/", "github"
	elsewhere := set.DeepCopy() // the same id at another address is another scale set
	elsewhere.Name, elsewhere.Spec.GitHubConfigUrl = "elsewhere", server+"/other"
	elsewhere.Annotations[v1alpha1.AnnotationRunnerScaleSetID] = strconv.Itoa(w.left)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "github"},
		Data: map[string][]byte{"github_token": []byte("mine")}}
	w.cluster = fake.NewClientBuilder().WithScheme(kinds.Scheme()).WithObjects(set, elsewhere, secret).Build()
	return w
}

func (w *world) create(name string) int {
	w.Helper()
	made, err := w.client.CreateRunnerScaleSet(w.Context(), &actions.RunnerScaleSet{Name: name, RunnerGroupID: 1})
	if err != nil {
		w.Fatal(err)
	}
	return made.ID
}

// run runs the command with an answer to its question.
func (w *world) run(options scalesets.Options, typed string) (answer, notes string, err error) {
	w.Helper()
	if options.Token == "" && options.Secret == "" && options.Set == "" {
		options.Token, options.Address = "mine", w.address
	}
	options.Namespace = "team"
	var out, said bytes.Buffer
	err = scalesets.Run(w.Context(), w.cluster, options, strings.NewReader(typed), &out, &said)
	return out.String(), said.String(), err
}

func (w *world) exists(id int) bool {
	w.Helper()
	_, err := w.client.GetRunnerScaleSetByID(w.Context(), id)
	if err != nil && !errors.Is(err, actions.ErrScaleSetNotFound) {
		w.Fatal(err)
	}
	return err == nil
}

func TestListSaysWhoHoldsWhat(t *testing.T) {
	w := newWorld(t)
	for name, options := range map[string]scalesets.Options{
		"a token of one's own": {}, "a Secret": {Secret: "github", Address: w.address}, "a set": {Set: "ours"},
	} {
		answer, notes, err := w.run(options, "")
		if err != nil || notes != "" {
			t.Fatalf("with %s: %v, %s", name, err, notes)
		}
		lines := strings.Split(strings.TrimSpace(answer), "\n")
		if len(lines) != 3 || !strings.HasSuffix(lines[1], "team/ours") || !strings.HasSuffix(lines[2], "nobody here") {
			t.Errorf("with %s:\n%s", name, answer)
		}
	}
}

func TestListForPrograms(t *testing.T) {
	w := newWorld(t)
	var told struct {
		ScaleSets []scalesets.Row
		Unseen    string
	}
	answer, _, err := w.run(scalesets.Options{Format: "json"}, "")
	if err := errors.Join(err, json.Unmarshal([]byte(answer), &told)); err != nil {
		t.Fatal(err)
	}
	if len(told.ScaleSets) != 2 || told.Unseen != "" || told.ScaleSets[0].HeldBy[0] != "team/ours" ||
		told.ScaleSets[1].ID != w.left || len(told.ScaleSets[1].HeldBy) > 0 {
		t.Errorf("as JSON: %+v", told)
	}
}

// Who can't read the cluster doesn't know who holds what.
func TestListWithoutACluster(t *testing.T) {
	w := newWorld(t)
	answer, notes, err := w.run(scalesets.Options{Unreachable: errors.New("no cluster")}, "")
	if err != nil || !strings.Contains(notes, "no cluster") || strings.Contains(answer, "nobody") ||
		strings.Count(answer, "unknown") != 2 {
		t.Errorf("without a cluster: %v, %s%s", err, notes, answer)
	}
	if _, _, err := w.run(scalesets.Options{Secret: "github", Unreachable: errors.New("no cluster")}, ""); err == nil {
		t.Error("a Secret of no cluster was read")
	}
}

func TestDeletionIsRefused(t *testing.T) {
	w := newWorld(t)
	session, err := w.client.CreateSession(t.Context(), w.left, "another cluster")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		options scalesets.Options
		typed   string
		want    string
	}{
		"held here":         {scalesets.Options{Delete: "held", Yes: true}, "", "is held by AutoscalingRunnerSet team/ours"},
		"listened to":       {scalesets.Options{Delete: strconv.Itoa(w.left), Yes: true}, "", "somebody listens to"},
		"another answer":    {scalesets.Options{Delete: "left"}, "y\n", "not confirmed"},
		"no answer":         {scalesets.Options{Delete: "left"}, "", "not confirmed"},
		"unseen, unasked":   {scalesets.Options{Delete: "left", Yes: true, Unreachable: errors.New("no cluster")}, "", "no cluster"},
		"unseen, listening": {scalesets.Options{Delete: "left", Unreachable: errors.New("no cluster")}, "left\n", "somebody listens to"},
	} {
		_, _, err := w.run(test.options, test.typed)
		if !errors.Is(err, scalesets.ErrNotDeleted) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !w.exists(w.held) || !w.exists(w.left) {
		t.Error("one was deleted")
	}
	if err := session.Close(t.Context()); err != nil {
		t.Errorf("the other's session is gone: %v", err)
	}
	if _, _, err := w.run(scalesets.Options{Delete: "nope", Yes: true}, ""); err == nil ||
		errors.Is(err, scalesets.ErrNotDeleted) {
		t.Errorf("an unknown one: %v", err)
	}
}

func TestDeletionIsConfirmed(t *testing.T) {
	w := newWorld(t)
	_, notes, err := w.run(scalesets.Options{Delete: "left"}, "left\n")
	if err != nil || !strings.Contains(notes, "Type its name to delete it") || !strings.Contains(notes, "is deleted.") {
		t.Fatalf("%v: %s", err, notes)
	}
	if w.exists(w.left) || !w.exists(w.held) {
		t.Error("another one was deleted")
	}
	third := w.create("third")
	if _, _, err := w.run(scalesets.Options{Delete: "third", Yes: true}, ""); err != nil || w.exists(third) {
		t.Errorf("with --yes: %v", err)
	}
}
