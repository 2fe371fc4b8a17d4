package access

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Guard lets known users ask, and says what each may see.
type Guard struct {
	who    identity
	rights *rights
	// cluster is the name of this cluster in the ledger.
	cluster string
	log     logr.Logger
}

// NewGuard returns a guard that knows users by a proxy or, without one, by tokens of an audience.
func NewGuard(api client.Client, cluster, audience string, proxy *Proxy, log logr.Logger) *Guard {
	g := &Guard{rights: &rights{api, cache.NewLRUExpireCache(maxAnswers)}, cluster: cluster, log: log}
	g.who = (&tokens{api, audience, cache.NewLRUExpireCache(maxAnswers), cache.NewLRUExpireCache(maxAnswers)}).who
	if proxy != nil {
		g.who = proxy.who
	}
	return g
}

// Around lets a handler answer those who may ask.
func (g *Guard) Around(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, err := g.who(r)
		var granted *grant
		if err == nil {
			query := r.URL.Query()
			granted, err = g.grant(r.Context(), user, query.Get("cluster"), query.Get("namespace"))
		}
		if err == nil {
			handler.ServeHTTP(w, withoutRight(r.WithContext(context.WithValue(r.Context(), key{}, granted)), granted))
			return
		}
		refused, is := errors.AsType[*RefusedError](err)
		if !is {
			g.log.Error(err, "The API server could not be asked who reads the ledger; does the ledger's ClusterRole allow "+
				"creating TokenReviews and SubjectAccessReviews?")
			refused = &RefusedError{http.StatusServiceUnavailable, "the API server could not be asked; the ledger's log says why"}
		}
		if refused.Status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(refused.Status)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": refused.Message}) // whoever has asked may be gone
	})
}

// withoutRight returns a request for gaps without the namespace by whose right it is answered: gaps have none, and the table
// refuses what doesn't choose them.
func withoutRight(r *http.Request, granted *grant) *http.Request {
	if granted.everything || granted.namespace == "" || !strings.HasSuffix(r.URL.Path, "/gaps") {
		return r
	}
	query := r.URL.Query()
	query.Del("namespace")
	address := *r.URL
	address.RawQuery = query.Encode()
	asked := r.Clone(r.Context())
	asked.URL = &address
	return asked
}

// Namespace returns the namespace by whose right a request is answered, empty if it may see all of them.
func Namespace(ctx context.Context) string {
	if granted, is := ctx.Value(key{}).(*grant); is && !granted.everything {
		return granted.namespace
	}
	return ""
}

// grant returns what a user may see of what he asks for.
func (g *Guard) grant(ctx context.Context, user *authenticationv1.UserInfo, cluster, namespace string) (*grant, error) {
	granted := &grant{user: user.Username, namespace: namespace,
		may: func(ctx context.Context, namespace string) (bool, error) {
			return g.rights.mayRead(ctx, user, namespace)
		}}
	var err error
	granted.everything, err = g.rights.ask(ctx, user, authorizationv1.SubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: EveryCluster}})
	if err != nil || granted.everything {
		return granted, err
	}
	if cluster != "" && cluster != g.cluster {
		return nil, &RefusedError{http.StatusForbidden, "rows of other clusters take the right to get the nonResourceURL " +
			EveryCluster}
	}
	may, err := g.rights.mayRead(ctx, user, namespace)
	switch {
	case err != nil:
		return nil, err
	case namespace == "":
		granted.allNamespaces = may
	case !may:
		return nil, &RefusedError{http.StatusForbidden, "you may not get autoscalingrunnersets in the namespace that you ask for"}
	}
	return granted, nil
}
