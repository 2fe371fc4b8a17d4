package holders_test

import (
	"errors"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/holders"
	"github.com/harrier-ci/harrier/internal/controller/controllertest"
)

const (
	manager = "manager"
	address = "https://github.com/my-org"
)

// fixture has the records on a fake API server.
type fixture struct {
	*testing.T
	client client.Client
	store  *holders.Store
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	builder := controllertest.NewKubernetes()
	for name, index := range holders.Indexes {
		builder = builder.WithIndex(&coordinationv1.Lease{}, name, index)
	}
	f := &fixture{T: t, client: builder.Build()}
	f.store = &holders.Store{Client: f.client, Namespace: manager}
	return f
}

// install creates a set.
func (f *fixture) install(namespace, name string) holders.Set {
	f.Helper()
	set := &v1alpha1.AutoscalingRunnerSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("uid of " + namespace + "/" + name),
	}}
	if err := f.client.Create(f.Context(), set); err != nil {
		f.Fatal(err)
	}
	return holders.SetOf(set)
}

// hold reports whether a set gets what it has found.
func (f *fixture) hold(set holders.Set, found holders.ScaleSet, created bool) bool {
	f.Helper()
	err := f.store.Hold(f.Context(), set, found, created)
	held, refused := errors.AsType[*holders.HeldError](err)
	if err != nil && !refused {
		f.Fatal(err)
	}
	if refused && held.Holder.Namespace != set.Key.Namespace && strings.Contains(err.Error(), held.Holder.Namespace) {
		f.Errorf("%s is told of another's namespace: %v", set.Key, err)
	}
	return !refused
}

func found(id int, name string) holders.ScaleSet {
	return holders.ScaleSet{URL: address, Way: "https://github.com", ID: id, Name: name}
}

// by returns what was found by http, or with certificates of the tenant's own.
func by(way string, s holders.ScaleSet) holders.ScaleSet {
	s.Way = "https://github.com with certificates x"
	if way != "" {
		s.Way = "http://github.com of namespace b"
	}
	return s
}

func TestWhoGetsAScaleSetThatAnotherHolds(t *testing.T) {
	mine := found(5, "build")
	respelt := mine
	respelt.URL = "https://www.github.com/My-Org/"
	for name, test := range map[string]struct {
		namespace string
		found     holders.ScaleSet
		created   bool
		gets      bool
	}{
		"another namespace, the same way":                  {"b", mine, false, false},
		"another spelling":                                 {"b", respelt, false, false},
		"its own certificates":                             {"b", by("", mine), false, true},
		"http":                                             {"b", by("http", mine), false, true},
		"another scale set":                                {"b", found(6, "build"), false, true},
		"the same namespace":                               {"team-a", mine, false, false},
		"the same namespace, another way":                  {"team-a", by("", mine), false, false},
		"the same namespace, another way and name":         {"team-a", by("", found(5, "test")), false, true},
		"an id that GitHub has assigned to another name":   {"b", found(5, "test"), false, true},
		"an id that GitHub has assigned anew to that name": {"b", mine, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			holder, other := f.install("team-a", "first"), f.install(test.namespace, "second")
			for range 2 {
				if !f.hold(holder, mine, false) {
					t.Fatal("the first set is refused")
				}
			}
			if got := f.hold(other, test.found, test.created); got != test.gets {
				t.Errorf("gets it: %t, want %t", got, test.gets)
			}
			// What came by another way, or has another id, hinders the holder in nothing.
			if elsewhere := test.found.Way != mine.Way || test.found.ID != mine.ID; elsewhere {
				rival, err := f.store.Rival(t.Context(), holder, mine)
				taken, takenErr := f.store.IsTaken(t.Context(), holder, mine)
				named, namedErr := f.store.IsNamedByAnother(t.Context(), holder, found(0, "test"))
				if rival != nil || taken || (named && test.namespace != "team-a") || errors.Join(err, takenErr, namedErr) != nil {
					t.Errorf("rival %+v, taken %t, named %t, errors %v, %v, %v", rival, taken, named, err, takenErr, namedErr)
				}
			}
		})
	}
}

// A set that is gone holds nothing, whatever is recorded; one that another manager watches lives.
func TestRecordsOfSetsThatAreGone(t *testing.T) {
	for name, watches := range map[string]bool{"gone": true, "another manager's": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.store.Watches = func(namespace string) bool { return watches || namespace != "team-a" }
			gone := holders.Set{Key: types.NamespacedName{Namespace: "team-a", Name: "gone"}, UID: "gone"}
			if !f.hold(gone, found(5, "build"), false) {
				t.Fatal("refused")
			}
			if got := f.hold(f.install("b", "second"), found(5, "build"), false); got != watches {
				t.Errorf("gets it: %t, want %t", got, watches)
			}
		})
	}
}

// A scale set that GitHub has renamed is still held, and its record goes when it is dropped.
func TestRecordFollowsTheName(t *testing.T) {
	f := newFixture(t)
	holder, other := f.install("team-a", "first"), f.install("b", "second")
	if !f.hold(holder, found(5, "build"), false) || !f.hold(holder, found(5, "renamed"), false) ||
		f.hold(other, found(5, "renamed"), false) {
		t.Error("want the holder to keep it under the new name")
	}
	records, err := f.store.Of(t.Context(), holder.Key)
	if err != nil || len(records) != 1 || records[0].Name != "renamed" {
		t.Fatalf("records %+v, error %v", records, err)
	}
	if err := f.store.Drop(t.Context(), records...); err != nil || !f.hold(other, found(5, "renamed"), false) {
		t.Errorf("error %v, or the other is still refused", err)
	}
}

// No quota of a tenant's namespace limits the Leases in the manager's.
func TestASetHasFewRecords(t *testing.T) {
	f := newFixture(t)
	set := f.install("team-a", "first")
	const most = 32 // twice the registrations that a set remembers
	for id := range most {
		if err := f.store.Hold(f.Context(), set, found(id+1, "build"), false); err != nil {
			t.Fatal(err)
		}
	}
	var refused *holders.RecordError
	if err := f.store.Hold(f.Context(), set, found(most+1, "build"), false); !errors.As(err, &refused) {
		t.Errorf("record %d: %v", most+1, err)
	}
	if err := f.store.Hold(f.Context(), set, found(most, "renamed"), false); err != nil {
		t.Errorf("one that it has: %v", err)
	}
	of, err := f.store.Of(f.Context(), set.Key)
	if err != nil || len(of) != most {
		t.Errorf("%d records, %v", len(of), err)
	}
}
