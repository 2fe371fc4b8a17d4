package holders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
	"github.com/harrier-ci/harrier/internal/controller/autoscalingrunnerset/journal"
)

// Indexes of the cache: records by what is held, by the address at which it is, and by the set that holds it.
const (
	IndexByScaleSet = "held scale set"
	IndexByAddress  = "address of the held scale set"
	IndexByHolder   = "holder"
)

// Indexes are the functions of these indexes.
var Indexes = map[string]client.IndexerFunc{
	IndexByScaleSet: indexed(func(r Record) string { return scaleSetKey(r.URL, r.ID) }),
	IndexByAddress:  indexed(func(r Record) string { return journal.AddressKey(r.URL) }),
	IndexByHolder:   indexed(func(r Record) string { return r.Holder.Key.String() }),
}

func indexed(key func(Record) string) client.IndexerFunc {
	return func(object client.Object) []string {
		if lease, ok := object.(*coordinationv1.Lease); ok {
			if r, readable := recordOf(lease); readable {
				return []string{key(r)}
			}
		}
		return nil
	}
}

func scaleSetKey(address string, id int) string {
	return strconv.Itoa(id) + " " + journal.AddressKey(address)
}

// HeldError is returned if another set holds the scale set.
type HeldError struct {
	// Holder is the set that does, zero if nobody has recorded it yet, and Asking the one that is told so.
	Holder, Asking types.NamespacedName
	ID             int
	Name           string
}

// Error names the holder and the next step. A tenant does not learn what there is in another's namespace.
func (e *HeldError) Error() string {
	owner := "another AutoscalingRunnerSet"
	switch e.Holder.Namespace {
	case "":
	case e.Asking.Namespace:
		owner = "AutoscalingRunnerSet " + e.Holder.String()
	default:
		owner += " in another namespace"
	}
	return fmt.Sprintf("scale set %d on GitHub already belongs to %s; choose another runnerScaleSetName or runnerGroup",
		e.ID, owner)
}

// CauseReason implements causes.Named.
func (e *HeldError) CauseReason() string { return v1alpha1.ReasonScaleSetInUse }

// RecordError is returned if it can't be recorded who holds a scale set.
type RecordError struct {
	id    int
	cause error
}

// Error names the cause.
func (e *RecordError) Error() string {
	return fmt.Sprintf("record in the controller's namespace who holds scale set %d: %v", e.id, e.cause)
}

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.cause }

// CauseReason implements causes.Named.
func (e *RecordError) CauseReason() string { return v1alpha1.ReasonReconcileFailed }

// Store reads and writes the records.
type Store struct {
	// Client reads from the manager's cache, which has AutoscalingRunnerSets, and Leases by the Indexes.
	Client client.Client
	// Namespace is the manager's, where the records are.
	Namespace string
	// Watches reports whether the manager sees the sets of a namespace; nil means of all. Those that it doesn't see are
	// another manager's, and taken for living.
	Watches func(namespace string) bool
}

// Requests maps a record to its holder, which may be gone, unless that is another manager's. It is for a watch.
func (s *Store) Requests(_ context.Context, object client.Object) []ctrl.Request {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return nil
	}
	r, readable := recordOf(lease)
	if !readable || (s.Watches != nil && !s.Watches(r.Holder.Key.Namespace)) {
		return nil
	}
	return []ctrl.Request{{NamespacedName: r.Holder.Key}}
}

// mostRecords bounds the records of a set, which no quota of its namespace does: it has those of the present scale set
// and of MaxRegistrationRecords that it leaves. A server that finds another one each time gets no more.
const mostRecords = 2 * v1alpha1.MaxRegistrationRecords

// Hold records that a set holds a scale set that GitHub has just answered, unless it does already. created says that
// GitHub has just created it, so that whatever is recorded of its id is outdated. It fails with *HeldError if another
// set holds it, and with *RecordError.
func (s *Store) Hold(ctx context.Context, set Set, found ScaleSet, created bool) error {
	err := s.hold(ctx, set, found, created)
	if _, held := errors.AsType[*HeldError](err); err == nil || held {
		return err
	}
	return &RecordError{found.ID, err}
}

func (s *Store) hold(ctx context.Context, set Set, found ScaleSet, created bool) error {
	if !created {
		rival, err := s.Rival(ctx, set, found)
		if err != nil {
			return err
		}
		if rival != nil {
			return &HeldError{Holder: rival.Holder.Key, Asking: set.Key, ID: found.ID, Name: found.Name}
		}
	}
	wanted := Record{ScaleSet: found, Holder: set}
	there := &coordinationv1.Lease{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: wanted.name()}, there)
	switch {
	case apierrors.IsNotFound(err):
		own, err := s.Of(ctx, set.Key)
		if err != nil {
			return err
		}
		if len(own) >= mostRecords {
			return fmt.Errorf("it is recorded already that the AutoscalingRunnerSet holds %d others", len(own))
		}
		return s.Client.Create(ctx, wanted.leaseOf(s.Namespace)) // refused if somebody is faster, or the cache behind
	case err != nil:
		return err
	}
	return s.replace(ctx, there, wanted)
}

// replace writes a record over what is there, if that is as it was read and says something else.
func (s *Store) replace(ctx context.Context, there *coordinationv1.Lease, wanted Record) error {
	if r, readable := recordOf(there); readable && r.Holder == wanted.Holder && r.ScaleSet == wanted.ScaleSet {
		return nil
	}
	wanted.lease = there
	return s.Client.Update(ctx, wanted.leaseOf(s.Namespace))
}

// Rival returns the record that keeps a set from holding a scale set, nil if none does. The name is that which the set
// knows it by, "" if it knows none.
func (s *Store) Rival(ctx context.Context, set Set, known ScaleSet) (*Record, error) {
	return s.living(ctx, IndexByScaleSet, scaleSetKey(known.URL, known.ID), func(r Record, all []Record) bool {
		return r.rivals(all, set, known)
	})
}

// rivals reports whether a record, if its holder lives, keeps a set from holding what it has found. If the set has a
// record of its own among all, by another way than a rival in its namespace, the older of the two counts.
func (r Record) rivals(all []Record, set Set, found ScaleSet) bool {
	own := slices.IndexFunc(all, func(r Record) bool { return r.Holder.UID == set.UID })
	return r.bars(set, found) && (r.Way == found.Way || own < 0 || r.precedes(all[own]))
}

// precedes orders records by age. Timestamps have whole seconds, so the name decides between those of one.
func (r Record) precedes(other Record) bool {
	return cmp.Or(r.lease.CreationTimestamp.Compare(other.lease.CreationTimestamp.Time), cmp.Compare(r.name(), other.name())) < 0
}

// IsTaken reports whether a scale set that a set has found has become another's since, under whatever name.
func (s *Store) IsTaken(ctx context.Context, set Set, found ScaleSet) (bool, error) {
	taker, err := s.living(ctx, IndexByScaleSet, scaleSetKey(found.URL, found.ID), func(r Record, _ []Record) bool {
		return r.Holder.UID != set.UID && (r.Way == found.Way || r.bars(set, found))
	})
	return taker != nil, err
}

// IsHeld reports whether anybody who lives, be it the set that asks, is recorded to hold a scale set.
func (s *Store) IsHeld(ctx context.Context, set Set, found ScaleSet) (bool, error) {
	holder, err := s.living(ctx, IndexByScaleSet, scaleSetKey(found.URL, found.ID), func(r Record, _ []Record) bool {
		return r.Holder == set || r.bars(set, found)
	})
	return holder != nil, err
}

// IsNamedByAnother reports whether another set holds a scale set of that name at the address, whatever its id.
func (s *Store) IsNamedByAnother(ctx context.Context, set Set, found ScaleSet) (bool, error) {
	another, err := s.living(ctx, IndexByAddress, journal.AddressKey(found.URL), func(r Record, _ []Record) bool {
		return strings.EqualFold(r.Name, found.Name) && r.bars(set, found)
	})
	return another != nil, err
}

// Of returns the records in the name of a set, also of a former one of that name.
func (s *Store) Of(ctx context.Context, set types.NamespacedName) ([]Record, error) {
	return s.list(ctx, IndexByHolder, set.String())
}

// Drop deletes records, each as it was read.
func (s *Store) Drop(ctx context.Context, records ...Record) error {
	for _, r := range records {
		err := s.Client.Delete(ctx, r.lease.DeepCopy(), client.Preconditions{
			UID: new(r.lease.UID), ResourceVersion: new(r.lease.ResourceVersion),
		})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("forget who held scale set %d: %w", r.ID, err)
		}
	}
	return nil
}

// list returns the records that the cache has under a key.
func (s *Store) list(ctx context.Context, index, key string) (records []Record, err error) {
	var leases coordinationv1.LeaseList
	err = s.Client.List(ctx, &leases, client.InNamespace(s.Namespace), client.MatchingFields{index: key},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list who holds scale sets: %w", err)
	}
	for i := range leases.Items {
		if r, readable := recordOf(&leases.Items[i]); readable {
			records = append(records, r)
		}
	}
	return records, nil
}

// living returns the first record under a key that counts, beside all that are there, and whose holder exists; nil if
// there is none.
func (s *Store) living(
	ctx context.Context, index, key string, counts func(r Record, all []Record) bool,
) (*Record, error) {
	records, err := s.list(ctx, index, key)
	if err != nil {
		return nil, err
	}
	for i := range records {
		if !counts(records[i], records) {
			continue
		}
		if lives, err := s.lives(ctx, records[i]); err != nil || lives {
			return &records[i], err
		}
	}
	return nil, nil
}

// lives reports whether the holder of a record exists.
func (s *Store) lives(ctx context.Context, r Record) (bool, error) {
	if s.Watches != nil && !s.Watches(r.Holder.Key.Namespace) {
		return true, nil
	}
	set := &v1alpha1.AutoscalingRunnerSet{}
	err := s.Client.Get(ctx, r.Holder.Key, set)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("look for the holder of scale set %d: %w", r.ID, err)
	}
	return err == nil && set.UID == r.Holder.UID, nil
}
