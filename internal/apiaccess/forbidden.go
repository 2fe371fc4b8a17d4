package apiaccess

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ForbiddenTimeout is how long we don't trust a 403 that would end something for good. An API server that has just started answers
// 403 until it has loaded the Roles, which takes about a second.
const ForbiddenTimeout = 15 * time.Second

// MayPass reports whether err, with which a request has failed since the given time, may be the 403 of an API server that has just
// started.
func MayPass(err error, since, now time.Time) bool {
	return apierrors.IsForbidden(err) && now.Before(since.Add(ForbiddenTimeout))
}
