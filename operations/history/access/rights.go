package access

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/harrier-ci/harrier/apis/actions.github.com/v1alpha1"
)

// EveryCluster is the path that whoever may get it sees all rows for, those of other clusters included: the API server
// knows no rights there.
const EveryCluster = "/harrier/history/clusters"

const (
	// How long an answer of the API server is believed: a right that was taken away works for a minute, a new one after
	// ten seconds.
	allowedFor = time.Minute
	refusedFor = 10 * time.Second
	// Of the latest maxAnswers answers is remembered what they were, at about 150 bytes each.
	maxAnswers    = 4096
	reviewTimeout = 10 * time.Second
)

// rights asks the API server what users may, and remembers it for a while.
type rights struct {
	api      client.Client
	answered *cache.LRUExpireCache
}

// mayRead reports whether a user may get scale sets in a namespace, in all if that is empty.
func (r *rights) mayRead(ctx context.Context, user *authenticationv1.UserInfo, namespace string) (bool, error) {
	return r.ask(ctx, user, authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Group: v1alpha1.GroupVersion.Group,
			Version: v1alpha1.GroupVersion.Version, Resource: "autoscalingrunnersets", Namespace: namespace}})
}

func (r *rights) ask(ctx context.Context, user *authenticationv1.UserInfo, asked authorizationv1.SubjectAccessReviewSpec,
) (bool, error) {
	asked.User, asked.UID, asked.Groups = user.Username, user.UID, user.Groups
	asked.Extra = map[string]authorizationv1.ExtraValue{}
	for name, values := range user.Extra {
		asked.Extra[name] = authorizationv1.ExtraValue(values)
	}
	text, err := json.Marshal(asked)
	if err != nil {
		return false, fmt.Errorf("ask what %s may see: %w", user.Username, err)
	}
	hash := sha256.Sum256(text)
	if known, found := r.answered.Get(hash); found {
		return known.(bool), nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review := &authorizationv1.SubjectAccessReview{Spec: asked}
	if err := r.api.Create(ctx, review); err != nil {
		return false, fmt.Errorf("ask what %s may see: %w", user.Username, err)
	}
	lifetime := refusedFor
	if review.Status.Allowed {
		lifetime = allowedFor
	}
	r.answered.Add(hash, review.Status.Allowed, lifetime)
	return review.Status.Allowed, nil
}
