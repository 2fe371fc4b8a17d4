package doctor

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/operations/doctor/snapshot"
)

// counting is an API server whose requests take a while, and which counts them by their purpose.
type counting struct {
	client.Reader
	reviewer
	mu          sync.Mutex
	lists, gets int
	reviews     int
	now, most   int
}

// request takes as long as a request from a laptop to a cluster.
func (c *counting) request(count *int) {
	c.mu.Lock()
	*count++
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	<-time.After(50 * time.Millisecond)
	c.mu.Lock()
	c.now--
	c.mu.Unlock()
}

func (c *counting) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	c.request(&c.lists)
	return c.Reader.List(ctx, list, options...)
}

func (c *counting) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	c.request(&c.gets)
	return c.Reader.Get(ctx, key, object, options...)
}

func (c *counting) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	c.request(&c.reviews)
	return c.reviewer.Create(ctx, object, options...)
}

// crowd returns a number of scale sets with their listeners, spread over namespaces, and a manager.
func crowd(sets, namespaces int) []client.Object {
	manager := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "harrier-system", Name: "harrier",
		Labels: map[string]string{v1alpha1.LabelPartOf: snapshot.PartOfController},
	}}
	manager.Spec.Template.Spec.ServiceAccountName = "harrier"
	manager.Status.AvailableReplicas = 1
	all := []client.Object{manager}
	for i := range sets {
		name, namespace := fmt.Sprintf("linux-%02d", i), fmt.Sprintf("team-%02d", i%namespaces)
		made := objects()
		for _, object := range made {
			object.SetNamespace(namespace)
			if object.GetName() != "github" {
				object.SetName(name)
				object.SetLabels(map[string]string{v1alpha1.LabelScaleSetName: name})
			}
		}
		if i >= namespaces {
			made = made[:2] // the Secret is shared
		}
		all = append(all, append(made, &v1alpha1.AutoscalingListener{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "harrier-system", Name: namespace + "-" + name,
				Labels: map[string]string{v1alpha1.LabelScaleSetName: name, v1alpha1.LabelScaleSetNamespace: namespace},
			},
			Spec: v1alpha1.AutoscalingListenerSpec{AutoscalingRunnerSetName: name,
				AutoscalingRunnerSetNamespace: namespace},
		})...)
	}
	return all
}

// Fifty scale sets are checked in seconds, with a bounded number of concurrent requests, in whatever namespaces they
// are.
func TestManySetsAreLookedAtTogether(t *testing.T) {
	// lists: EphemeralRunnerSets, EphemeralRunners, Pods, ResourceQuotas, PodDisruptionBudgets, Events
	const sets, perNamespace = 50, 6
	for _, namespaces := range []int{1, 50} {
		t.Run(fmt.Sprint(namespaces, " namespaces"), func(t *testing.T) {
			server := &counting{Reader: cluster(t, allow, crowd(sets, namespaces)...)}
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				snapshot, err := snapshot.Gather(t.Context(), snapshot.Cluster{Reader: server, Reviews: server}, "", "")
				if err != nil || len(snapshot.Sets) != sets {
					t.Fatalf("%d sets, %v", len(snapshot.Sets), err)
				}
				if took := time.Since(start); took > 5*time.Second {
					t.Errorf("%d requests took %s, want seconds", server.lists+server.gets+server.reviews, took)
				}
				for i := range snapshot.Sets {
					if set := &snapshot.Sets[i]; set.Listener == nil || len(set.RunnerSets) != 1 ||
						set.Credentials == nil {
						t.Errorf("%s: listener %v, %d EphemeralRunnerSets, credentials %v", set.Name, set.Listener,
							len(set.RunnerSets),
							set.Credentials)
					}
				}
			})
			// Deployments, their pods, StatefulSets, scale sets, claims, listeners, and what is left of others (Secrets, Roles,
			// RoleBindings, VolumeSnapshots) are listed a single time.
			if want := 10 + perNamespace*namespaces; server.lists != want {
				t.Errorf("%d lists, want %d", server.lists, want)
			}
			// get and create Secrets; create, delete and patch pods; what a listener's Role has
			const ofManager, ofListener = 5, 4
			if want := ofManager*namespaces + ofListener*sets; server.reviews != want {
				t.Errorf("%d access reviews, want %d", server.reviews, want)
			}
			if server.gets > 2*sets || server.most > 10 {
				t.Errorf("%d reads of single objects, %d requests at a time", server.gets, server.most)
			}
		})
	}
}

// If the time is up, the doctor says so instead of reporting half of what there is.
func TestALookThatTakesTooLongIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &counting{Reader: cluster(t, allow, crowd(50, 50)...)}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := Run(ctx, snapshot.Cluster{Reader: server, Reviews: server}, Options{}, &bytes.Buffer{}); err == nil ||
			!strings.Contains(err.Error(), "deadline") {
			t.Errorf("Run() = %v, want that the time was up", err)
		}
	})
}
